"""`douane clients`, `audit`, `policy`, `runs`, `servers`, `keys`: rows, answers, exit statuses."""

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest
import yaml

from gateway.cli.operations import _shown
from gateway.storage.database import DATABASE
from tests.admin.world import Files, sighting
from tests.cli.world import Site
from tests.export.witness import Witness

ADD = ("clients", "add", "agent", "--grant", "client_credentials", "--resource", "/mcp/mail")
SCOPES = ("--scope", "tools:list", "--scope", "tools:call")


def test_a_client_is_added_listed_and_removed(site: Site) -> None:
    (added,) = site.rows(*ADD, *SCOPES, "--group", "a", "--group", "b", "--trusted-host")
    secret = added.pop("client_secret")
    assert len(secret) == 43
    assert (added["scopes"], added["groups"], added["trusted_host"]) == (
        ["tools:call", "tools:list"],
        ["a", "b"],
        True,
    )
    assert site.rows("clients", "list") == [added]
    assert secret not in site.run("clients", "list").stdout
    assert site.rows("clients", "remove", "agent") == [added]
    assert site.rows("clients", "list") == []
    assert site.run("clients", "remove", "agent").exit_code == 1


def test_a_new_clients_secret_is_shown_to_people_too(site: Site) -> None:
    lines = dict(line.split(maxsplit=1) for line in site.run(*ADD, *SCOPES).stdout.splitlines())
    assert lines["groups"] == "users"
    assert len(lines["client_secret"]) == 43


@pytest.mark.parametrize(
    "arguments",
    [
        (*ADD,),
        ("clients", "add", "agent", *SCOPES),
        (*ADD, "--scope", "everything"),
        ("clients", "add", "agent", "--resource", "/mcp/x", *SCOPES),
        (*ADD, "--grant", "password", *SCOPES),
    ],
)
def test_a_client_that_cannot_be_is_wrong_use(site: Site, arguments: tuple[str, ...]) -> None:
    assert site.run(*arguments).exit_code == 2
    assert site.rows("clients", "list") == []


def test_the_log_is_searched_and_a_record_is_shown(site: Site) -> None:
    site.seen = [sighting("send")]
    site.run("pins", "approve", "mail", "send")
    (record,) = site.rows("audit", "query", "--tool", "send", "--where", "code = approved")
    assert (record["kind"], record["method"]) == ("pin", "pins.approve")
    assert site.rows("audit", "query", "--verdict", "deny") == []
    assert site.rows("audit", "show", record["id"]) == [record]
    assert site.rows("audit", "show", record["id"], "--proof")[0]["proof"]["leaf_index"] == 0
    assert "pins.approve" in site.run("audit", "show", record["id"]).stdout
    assert "approved" in site.run("audit", "query").stdout
    assert site.run("audit", "show", "nothing").exit_code == 1
    assert site.run("audit", "query", "--where", "nonsense").exit_code == 2
    assert site.run("audit", "query", "--since", "yesterday").exit_code == 2
    first, *reads = site.rows("audit", "tail")
    assert (first, {read["code"] for read in reads}) == (record, {"read"})
    assert site.rows("audit", "show", "0") == [record]
    told = site.run("audit", "tail").stdout.split()
    assert told[:6] == ["0", "01-15", "08:00:00", "pin", record["principal"], "mail/send"]
    assert site.rows("audit", "stats")[0]["kinds"]["pin"] == 1


def test_the_whole_log_is_taken_away_as_lines_or_as_a_table(site: Site) -> None:
    site.seen = [sighting("=cmd()")]
    site.run("pins", "approve", "mail", "=cmd()")
    (record,) = [json.loads(line) for line in site.run("audit", "export").stdout.splitlines()]
    assert record["target"] == "=cmd()"
    text = site.run("audit", "export", "--format", "csv").stdout
    (row, *_) = csv.DictReader(io.StringIO(text))
    assert row["target"] == "'=cmd()"
    assert (row["id"], row["leaf_index"], row["token_id"]) == (record["id"], "0", "")
    assert json.loads(row["reasons"]) == record["reasons"]


def test_a_sound_log_is_proven_and_an_altered_one_is_not(site: Site) -> None:
    site.seen = [sighting("send")]
    site.run("pins", "approve", "mail", "send")
    (proven,) = site.rows("audit", "verify")
    assert (proven["ok"], proven["records"], proven["signed"]) == (True, 1, 1)
    told = site.run("audit", "verify").stdout
    assert told.startswith(f"the log is what was signed: 1 records, root {proven['root']}")
    note = site.folder / "note"
    note.write_text(altered(site.data_dir))
    (found,) = site.rows("audit", "verify", "--checkpoint", str(note), exit_code=1)
    assert (found["ok"], found["first_bad"]) == (False, 0)
    assert "from record 0 on" in site.run("audit", "verify").stdout


def test_a_witness_has_to_have_cosigned_the_log(site: Site) -> None:
    site.seen = [sighting("send")]
    site.run("pins", "approve", "mail", "send")
    witness = Witness()
    told = site.run("audit", "verify", "--witness", witness.vkey)
    assert told.exit_code == 1
    assert "the log is incomplete: no checkpoint here is cosigned by witness.ex" in told.stdout
    note = (site.data_dir / "checkpoint").read_text()
    kept = site.folder / "note"
    kept.write_text(note + witness.line(note.rpartition("\n\n")[0] + "\n", 1_679_315_147))
    asked = ("audit", "verify", "--witness", witness.vkey, "--checkpoint", str(kept))
    (_, said) = site.run(*asked).stdout.splitlines()
    at = "at 2023-03-20T12:25:47.000Z, by its clock"
    assert said == f"witnessed by witness.example/w1 {at}: the first 1 records"
    (row,) = site.rows(*asked)
    assert row["witnessed"] == [
        {"witness": witness.name, "time": "2023-03-20T12:25:47.000Z", "size": 1}
    ]
    assert site.run("audit", "verify", "--witness", "w+1+x").exit_code == 2
    assert site.run("audit", "verify", "--witness", witness.vkey, "--segment", "x").exit_code == 2


def test_a_configured_witness_has_to_have_cosigned_the_log_unless_it_is_left_out(
    site: Site,
) -> None:
    site.seen = [sighting("send")]
    site.run("pins", "approve", "mail", "send")
    witness = Witness()
    asked = {"w1": {"url": "https://witness.example/submit", "key": witness.vkey}}
    config = yaml.safe_load(site.config_file.read_text())
    config["audit"] = {"checkpoints": {"witnesses": asked}}
    site.config_file.write_text(yaml.safe_dump(config))
    told = site.run("audit", "verify")
    assert told.exit_code == 1
    assert "no checkpoint here is cosigned by witness.example/w1" in told.stdout
    told = site.run("audit", "verify", "--without-witnesses")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[-1] == "left out, as asked: what w1 cosigned"
    (row,) = site.rows("audit", "verify", "--without-witnesses")
    assert row["left_out"] == ["w1"]


def altered(data_dir: Path) -> str:
    """Change the first record behind the log's back; return its newest checkpoint."""
    connection = sqlite3.connect(data_dir / DATABASE)
    connection.execute("DROP TRIGGER audit_is_never_updated")
    connection.execute("UPDATE audit SET body = replace(body, 'allow', 'evil!')")
    connection.commit()
    (note,) = connection.execute("SELECT note FROM checkpoints ORDER BY size DESC").fetchone()
    connection.close()
    return str(note)


def test_a_checkpoint_that_is_not_there_and_a_log_that_is_not_there_are_wrong_use(
    site: Site,
) -> None:
    assert site.run("audit", "verify", "--checkpoint", str(site.folder / "none")).exit_code == 2
    site.data_dir.mkdir()
    assert site.run("audit", "verify").exit_code == 2


def test_a_value_is_hashed_as_json_or_else_as_text(site: Site) -> None:
    (structure,) = site.rows("audit", "hash", '{"to": "x"}')
    (text,) = site.rows("audit", "hash", "x y")
    (quoted,) = site.rows("audit", "hash", '"x y"')
    assert structure["bytes"] is None
    assert (text, text["json"][:3]) == (quoted, "h1:")


def test_the_policys_files_are_compiled_and_tested_without_a_gateway(site: Site) -> None:
    assert site.rows("policy", "check") == [{"ok": True, "problems": [], "notices": []}]
    assert site.run("policy", "check").stdout == "the policy compiles\n"
    assert site.run("policy", "test").stdout == "3 passed, 0 failed\n"
    assert site.rows("policy", "test")[0]["passed"] == 3
    assert not site.data_dir.exists()
    site.files = Files(problems=["a.rego:1: no"], failures=["data.x.test_a"])
    told = site.run("policy", "check")
    assert (told.exit_code, told.stdout) == (1, "a.rego:1: no\nthe policy has problems\n")
    told = site.run("policy", "test")
    assert (told.exit_code, told.stdout) == (1, "data.x.test_a\n3 passed, 1 failed\n")


def test_everything_is_stopped_and_goes_on_by_one_command_each(site: Site) -> None:
    assert site.run("policy", "go", "--note", "x").exit_code == 1
    assert site.run("policy", "stop").exit_code == 2
    (row,) = site.rows("policy", "stop", "--note", "a token is public")
    assert (row["stopped"], row["stopped_note"]) == (True, "a token is public")
    (status,) = site.rows("policy", "status")
    assert status.items() >= row.items()
    assert site.rows("policy", "go", "--note", "replaced") == [{"stopped": False}]
    (status,) = site.rows("policy", "status")
    assert status["stopped"] is False


def test_a_stop_that_came_after_the_one_that_was_seen_goes_on(site: Site) -> None:
    seen, later = (site.rows("policy", "stop", "--note", why)[0] for why in ("one", "two"))
    command = ("policy", "go", "--note", "x", "--standstill")
    late = site.run(*command, seen["standstill"])
    assert (late.exit_code, "stopped again since you looked" in late.stderr) == (1, True)
    assert site.rows("policy", "status")[0].items() >= later.items()
    assert site.rows(*command, later["standstill"]) == [{"stopped": False}]


def test_what_an_own_rule_changes_is_told_and_is_no_failure(site: Site) -> None:
    site.files = Files(changed=2, notices=["a.rego:3: data.douane.deny changes"])
    told = site.run("policy", "check")
    said = "notice: a.rego:3: data.douane.deny changes\n"
    assert (told.exit_code, told.stdout) == (0, said + "the policy compiles\n")
    told = site.run("policy", "test")
    counted = "3 passed, 0 failed, 2 of the shipped ones changed\n"
    assert (told.exit_code, told.stdout) == (0, said + counted)


@pytest.mark.parametrize(
    ("question", "exit_code"),
    [
        ('{"target": {"effect": "read"}}', 0),
        ('{"target": {"effect": "pay"}}', 1),
        ("{}", 1),
        ("[]", 2),
        ("nonsense", 2),
    ],
)
def test_a_question_is_answered_by_the_policy(site: Site, question: str, exit_code: int) -> None:
    assert site.run("policy", "eval", text=question).exit_code == exit_code
    file = site.folder / "question.json"
    file.write_text(question)
    assert site.run("policy", "eval", str(file), "--json").exit_code == exit_code


def test_a_decision_that_nobody_made_cannot_be_explained(site: Site) -> None:
    told = site.run("policy", "explain", "d_1")
    assert (told.exit_code, "no record of that decision" in told.stderr) == (1, True)


def test_the_policy_in_force_is_named(site: Site) -> None:
    named = {"digest": "sha256:0123", "candidate": "sha256:4567", "stopped": False}
    assert site.rows("policy", "status") == [named]
    assert "problem" not in site.run("policy", "status").stdout
    site.files = Files(problems=["a.rego:1: no"])
    assert "its files have a problem: a.rego:1: no\n" in site.run("policy", "status").stdout


def test_runs_servers_and_keys_are_listed(site: Site) -> None:
    assert [row["run"] for row in site.rows("runs", "list", "--limit", "1")] == ["r_new"]
    assert site.rows("runs", "show", "r_new") == []
    assert site.rows("runs", "list")[0]["integrity"] == "untrusted"
    assert "r_old" in site.run("runs", "list").stdout
    assert "web" in site.run("runs", "show", "r_new").stdout
    assert site.run("runs", "show", "r_none").exit_code == 1
    assert site.rows("servers", "list")[0]["server"] == "mail"
    assert "mail" in site.run("servers", "list").stdout
    assert site.rows("keys", "list")[0]["use"] == "audit"
    assert "douane/here+" in site.run("keys", "list", "--wide").stdout


def test_the_versions_need_no_configuration(site: Site) -> None:
    site.config_file.unlink()
    assert site.rows("version")[0].keys() == {"douane", "python", "sqlite"}
    assert "sqlite" in site.run("version").stdout


def test_a_server_is_registered_with_a_reference_to_what_it_is_shown(site: Site) -> None:
    add = ("servers", "add", "web", "--url", "https://web.example/mcp")
    accepted: tuple[tuple[str, ...], ...] = (
        (),
        ("--oauth",),
        ("--credential", "env:WEB"),
        ("--credential", "file:web.token", "--header", "X-Key"),
    )
    for options in accepted:
        (row,) = site.rows(*add, *options)
        assert (row["server"], row["registered"]) == ("web", True)
    refused: tuple[tuple[str, ...], ...] = (
        ("--header", "X-Key"),
        ("--oauth", "--credential", "env:WEB"),
    )
    for options in refused:
        assert site.run(*add, *options).exit_code == 2
    assert site.run("servers", "add", "web").exit_code == 2
    assert site.run("servers", "remove", "web").exit_code == 1


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ((None, None, False), None),
        ((None, None, True), {"kind": "oauth"}),
        (("env:WEB", None, False), {"kind": "header", "value": "env:WEB"}),
        (("env:WEB", "X-Key", False), {"kind": "header", "value": "env:WEB", "name": "X-Key"}),
    ],
    ids=["nothing", "oauth", "header", "another-header"],
)
def test_what_a_registered_server_is_shown_is_as_in_the_configuration(
    given: tuple[str | None, str | None, bool], shown: dict[str, str] | None
) -> None:
    credential, header, oauth = given
    assert _shown(credential, header, oauth=oauth) == shown


@pytest.mark.parametrize(
    "command",
    [
        "audit query --server {}",
        "pins list --server {}",
        "audit ask who-called {} nothing",
        "audit ask flows --from {}",
        "audit ask sent-outside --from {}",
    ],
)
def test_a_server_that_is_none_is_told_with_those_there_are(site: Site, command: str) -> None:
    (server,) = {str(row["server"]) for row in site.rows("servers", "list")}

    def said_of(named: str) -> str:
        return site.run(*command.format(named).split()).stderr

    near = said_of(f"{server}s")
    assert f"there is no server {server}s; is {server} meant? There are: {server}" in near
    assert "is no server zzz. There are:" in said_of("zzz")
    assert "no server" not in said_of(server)


def test_of_the_two_servers_of_a_flow_each_is_told_that_is_none(site: Site) -> None:
    told = site.run("audit", "ask", "flows", "--from", "yyy", "--to", "zzz").stderr
    assert ("is no server yyy." in told, "is no server zzz." in told) == (True, True)
    assert site.run("audit", "ask", "flows", "--from", "yyy", "--json").stderr == ""
