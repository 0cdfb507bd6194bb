"""`douane init`, `check`, `serve` and `config`: from an empty folder to a running gateway."""

import gc
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.config import parse, schema
from gateway.errors import AuditUnavailable
from gateway.ports.sandbox import Confinement
from tests.admin.world import Files
from tests.cli.world import CONFIG, Site

ROOT = Path(__file__).parents[2]
UNJAILED = Confinement(jailed=False, reason="bwrap not found")


@pytest.fixture(autouse=True)
def sound_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))


def test_init_writes_a_configuration_that_can_be_used_and_the_policies(tmp_path: Path) -> None:
    file = tmp_path / "new" / "douane.yaml"
    result = CliRunner().invoke(main, ["--config", str(file), "init"])
    assert result.exit_code == 0, result.output
    assert parse(file.read_text(), file=file).policy.path == str(file.parent / "policies")
    assert (file.parent / "policies" / "decision.rego").is_file()
    assert "douane check" in result.stdout


def test_init_takes_no_rule_that_was_only_tried_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "checkout"
    shutil.copytree(ROOT / "policies", shipped)
    for tried in ("mine.rego", "cases/roles.rego", "mine/roles.rego"):
        (shipped / tried).parent.mkdir(exist_ok=True)
        (shipped / tried).write_text("package douane\n")
    (shipped / "roles.rego").write_text("package douane\n")
    monkeypatch.setattr("gateway.cli.setup._shipped_policies", lambda: shipped)
    result = CliRunner().invoke(main, ["--config", str(tmp_path / "douane.yaml"), "init"])
    made = tmp_path / "policies"
    assert result.exit_code == 0, result.output
    assert not list(made.rglob("*/*.rego"))
    assert not (made / "mine.rego").exists()
    assert (made / "decision.rego").is_file()
    assert (made / "data.yaml").is_file()
    assert (made / "roles.rego").read_text() == "package douane\n"


def test_init_leaves_what_is_there_alone(site: Site) -> None:
    result = site.run("init")
    assert (result.exit_code, site.config_file.read_text()) == (1, CONFIG)
    assert not (site.folder / "policies").exists()


def test_init_keeps_policies_that_are_there(site: Site) -> None:
    site.config_file.unlink()
    (site.folder / "policies").mkdir()
    assert site.run("init").exit_code == 0
    assert list((site.folder / "policies").iterdir()) == []


def test_init_where_nothing_can_be_written_is_told(site: Site) -> None:
    (site.folder / "file").write_text("")
    site.config_file = site.folder / "file" / "douane.yaml"
    result = site.run("init")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_the_schema_is_printed(site: Site) -> None:
    assert json.loads(site.run("config", "schema").stdout) == schema()


def test_the_configuration_is_found_by_the_environment(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOUANE_CONFIG", str(site.config_file))
    assert CliRunner().invoke(main, ["servers", "list"]).exit_code == 0


def test_serving_ends_with_the_gateways_status(site: Site) -> None:
    assert site.run("serve").exit_code == 0
    assert site.served == [site.config_file]


def test_no_library_has_threads_of_its_own_however_early_it_is_loaded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    site.run("serve")
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert gc.isenabled()


def test_a_gateway_that_cannot_serve_says_why_on_one_line(site: Site) -> None:
    site.data_dir.mkdir()
    result = site.run("serve")
    assert (result.exit_code, result.stderr) == (2, "douane: data_dir is in use by process 1\n")


def test_a_secret_that_is_missing_keeps_the_gateway_from_serving_but_not_the_rest(
    site: Site,
) -> None:
    credential = "    credential: {kind: header, value: 'env:DOUANE_TEST_NO_SUCH'}\n"
    site.config_file.write_text(CONFIG + credential)
    result = site.run("serve")
    assert (result.exit_code, site.served) == (2, [])
    assert f"{site.config_file}:10: servers.mail.credential.value: `env:" in result.stderr
    assert site.run("servers", "list").exit_code == 0


def test_a_wrong_configuration_is_told_whole_to_every_command(site: Site) -> None:
    site.config_file.write_text("version: 2\nlisten: x\n")
    result = site.run("pins", "list")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 4)
    assert site.run("serve").exit_code == 2


def findings(site: Site, *arguments: str, exit_code: int = 0) -> list[tuple[str, str]]:
    rows = site.rows("check", *arguments, exit_code=exit_code)
    return [(row["level"], row["text"].replace(str(site.folder), "")) for row in rows]


def test_a_sound_site_has_nothing_wrong(site: Site) -> None:
    assert findings(site) == []
    assert site.run("check").stdout == "nothing is wrong\n"


def test_every_error_of_the_configuration_is_told_at_once(site: Site) -> None:
    site.config_file.write_text("version: 2\nlisten: x\nserverss: {}\n")
    told = findings(site, exit_code=1)
    assert [(level, text.split(": ")[0]) for level, text in told] == [
        ("error", "/douane.yaml:1"),
        ("error", "/douane.yaml:1"),
        ("error", "/douane.yaml:2"),
        ("error", "/douane.yaml:3"),
    ]


def test_what_is_said_of_a_shared_database_is_told(site: Site) -> None:
    site.shared = [{"text": "PostgreSQL 15.18", "wrong": False}]
    assert findings(site) == [("info", "storage: PostgreSQL 15.18")]
    site.shared = [{"text": "fsync is off", "wrong": True}]
    assert findings(site, exit_code=1) == [("error", "storage: fsync is off")]


def test_a_policy_that_does_not_compile_or_fails_its_tests_is_an_error(site: Site) -> None:
    site.files = Files(problems=["a.rego:1: no"])
    assert findings(site, exit_code=1) == [("error", "a.rego:1: no")]
    site.files = Files(failures=["data.x.test_a"])
    assert findings(site, exit_code=1) == [("error", "policy test failed: data.x.test_a")]
    site.files = Files(passed=0)
    assert findings(site) == [("warning", "policy.path: /policies holds no tests")]


def test_what_an_own_rule_changes_is_a_warning(site: Site) -> None:
    site.files = Files(passed=0, changed=1, notices=["a.rego:3: data.douane.deny changes"])
    assert findings(site) == [("warning", "policy: a.rego:3: data.douane.deny changes")]


def test_without_opa_the_check_says_so_and_goes_on(site: Site) -> None:
    site.files = NoOpa()
    site.open_upstreams = ("mail",)
    told = findings(site, exit_code=1)
    assert told[0] == ("error", "OPA could not be fetched")
    assert told[1][0] == "warning"


class NoOpa(Files):
    async def check(self) -> Mapping[str, Sequence[str]]:
        from gateway.errors import ConfigError

        raise ConfigError("OPA could not be fetched")


def test_an_upstream_that_answers_anybody_is_warned_of_unless_offline(site: Site) -> None:
    site.open_upstreams = ("mail",)
    ((level, text),) = findings(site)
    assert (level, text.split(":")[0]) == ("warning", "servers.mail")
    assert findings(site, "--offline") == []


def test_an_upstream_that_does_not_answer_is_warned_of_unless_offline(site: Site) -> None:
    site.silent_upstreams = {"mail": "connection refused"}
    ((level, text),) = findings(site)
    assert (level, "connection refused; start it" in text) == ("warning", True)
    assert findings(site, "--offline") == []


def test_a_gateway_whose_log_is_down_says_so_in_words(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(*_: object) -> int:
        raise AuditUnavailable("the audit log cannot record this now", detail="disk full")

    monkeypatch.setattr(sys.modules["gateway.wiring"], "serve", serve)
    result = site.run("serve")
    told = "douane: the gateway cannot run: the audit log cannot record this now: disk full\n"
    assert (result.exit_code, result.stderr) == (1, told)


def test_an_issuer_that_cannot_be_used_is_an_error_unless_offline(site: Site) -> None:
    where = "auth.external.issuer: https://id.example"
    site.wrong_issuers = {where: "it names another issuer"}
    ((level, text),) = findings(site, exit_code=1)
    assert level == "error"
    assert text.startswith(f"{where} cannot be used, so nobody can sign in there: it names another")
    assert text.endswith("and see that this machine reaches it")
    assert findings(site, "--offline") == []


def test_a_local_server_that_cannot_be_started_is_an_error(site: Site) -> None:
    site.unstartable = {"repo": "no jail: bwrap not found"}
    told = "servers.repo: no jail: bwrap not found"
    assert findings(site, "--offline", exit_code=1) == [("error", told)]


def test_a_model_that_cannot_be_used_is_an_error(site: Site) -> None:
    site.broken_model = "discovery.model: it is not what was pinned"
    assert findings(site, "--offline", exit_code=1) == [("error", site.broken_model)]


@pytest.mark.parametrize(
    ("jail", "held", "told"),
    [
        ("auto", Confinement(jailed=True), ("info", "code: programs run in a jail")),
        ("auto", UNJAILED, ("warning", f"code: programs run without a jail: {UNJAILED.reason}")),
        ("required", UNJAILED, ("error", f"code: programs run without a jail: {UNJAILED.reason}")),
    ],
    ids=["jailed", "not jailed", "required"],
)
def test_whether_programs_are_jailed_is_told_before_the_gateway_runs(
    site: Site, jail: str, held: Confinement, told: tuple[str, str]
) -> None:
    assert findings(site, "--offline") == []
    site.held = {"python": held}
    with site.config_file.open("a") as config:
        config.write(f"code: {{enabled: true, jail: {jail}}}\n")
    assert findings(site, "--offline", exit_code=int(told[0] == "error")) == [told]


def test_whether_programs_may_be_in_typescript_is_told_before_the_gateway_runs(site: Site) -> None:
    with site.config_file.open("a") as config:
        config.write("code: {enabled: true}\n")
    jailed = ("info", "code: programs run in a jail")
    unjailed = f"code: programs in typescript run without a jail: {UNJAILED.reason}"
    for held, told in (
        (Confinement(jailed=True), ("info", "code: programs in typescript run in a jail")),
        (
            UNJAILED,
            ("warning", f"{unjailed}; types are not checked"),
        ),
        (
            "it is switched off",
            ("info", "code: programs in typescript are not run: it is switched off"),
        ),
    ):
        site.held = {"python": Confinement(jailed=True), "typescript": held}
        assert findings(site, "--offline") == [jailed, told]


def test_that_types_of_programs_go_unchecked_is_told_before_the_gateway_runs(site: Site) -> None:
    with site.config_file.open("a") as config:
        config.write("code: {enabled: true, typescript_check: false}\n")
    site.held = {"python": Confinement(jailed=True), "typescript": Confinement(jailed=True)}
    assert findings(site, "--offline") == [
        ("info", "code: programs run in a jail"),
        ("info", "code: programs in typescript run in a jail; types are not checked"),
    ]


def test_a_key_that_others_can_read_is_an_error(site: Site) -> None:
    site.data_dir.mkdir()
    key = site.data_dir / "audit.key"
    key.write_text("x")
    key.chmod(0o640)
    told = "/var/audit.key can be reached by others (mode 0640); run: chmod 600 /var/audit.key"
    assert findings(site, exit_code=1) == [("error", told)]
    key.chmod(0o600)
    assert findings(site) == []


def test_secret_files_and_tls_files_are_looked_at(site: Site) -> None:
    site.config_file.write_text(
        CONFIG
        + "    credential: {kind: header, value: 'file:mail.token'}\n"
        + "policy: {engine: opa, opa: {url: 'http://127.0.0.1:8181', token: 'file:opa.token'}}\n"
        + "tls: {certificate: cert.pem, key: key.pem}\n"
    )
    for name in ("mail.token", "opa.token"):
        (site.folder / name).write_text("secret")
        (site.folder / name).chmod(0o644)
    told = findings(site, exit_code=1)
    assert [text.split(" ")[0] for level, text in told if level == "error"] == [
        "tls.certificate:",
        "/opa.token",
        "/mail.token",
        "/key.pem",
    ]


def test_an_old_sqlite_is_warned_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.51.2")
    ((level, text),) = findings(site)
    assert level == "warning"
    assert text.startswith("SQLite is 3.51.2, and before 3.51.3 ")
    assert "libsqlite3" in text
    assert site.run("check").stdout.startswith("warning: SQLite")
