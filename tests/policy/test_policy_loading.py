"""What is accepted as a policy, and what is refused and why."""

import http.client
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway.errors import ConfigError
from gateway.policy.bundle import Policy, prepare
from gateway.policy.commands import check, evaluate, run_own_tests
from gateway.policy.opa import Opa
from gateway.policy.settings import EngineKind, PolicySettings
from gateway.policy.sources import Sources, read_sources

RULE = 'package douane\n\ndecision := {"verdict": "allow", "reasons": []} if input.method == "x"\n'


def prepared(opa: Opa, files: Mapping[str, str], config: Mapping[str, Any] | None = None) -> Policy:
    sources = Sources(files={path: text.encode() for path, text in files.items()})
    return prepare(opa, sources, config or {})


def problems(opa: Opa, files: Mapping[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        prepared(opa, files)
    return caught.value.problems


def test_data_documents_and_the_gateways_own_are_data(opa: Opa) -> None:
    files = {"p.rego": RULE, "data.yaml": "douane: {x: [1]}", "lib/data.json": '{"y": 2}'}
    assert prepared(opa, files, {"roles": {}}).data == {
        "douane": {"x": [1], "config": {"roles": {}}},
        "lib": {"y": 2},
    }


def test_the_digest_names_everything_that_decides(opa: Opa) -> None:
    base = {"p.rego": RULE, "data.yaml": "x: 1"}
    digests = [
        prepared(opa, base).digest,
        prepared(opa, base, {"roles": {}}).digest,
        prepared(opa, {**base, "data.yaml": "x: 2"}).digest,
        prepared(opa, {**base, "q.rego": "package q"}).digest,
        prepared(opa, {"r.rego": RULE, "data.yaml": "x: 1"}).digest,
    ]
    assert len(set(digests)) == len(digests)
    test = {"p_test.rego": "package p_test\n\ntest_it if true\n"}
    assert prepared(opa, {**base, **test}).digest == digests[0]


def test_a_member_that_no_question_has_is_refused_with_its_place(opa: Opa) -> None:
    rules = "package q\n\nx if input.principel.sub\n\ny if input.target.zzz\n"
    assert problems(opa, {"p.rego": RULE, "q.rego": rules}) == (
        "q.rego:3: undefined ref: input.principel.sub; is principal meant?",
        "q.rego:5: undefined ref: input.target.zzz",
    )


@pytest.mark.parametrize(
    ("phase", "member"),
    [("list", "arguments"), ("list", "flow"), ("list", "result"), ("call", "result")],
)
@pytest.mark.parametrize(
    "test", ['input.phase == "{}"', '"{}" == input.phase', 'input.phase = "{}"']
)
def test_a_member_that_the_phase_never_has_is_refused(
    opa: Opa, phase: str, member: str, test: str
) -> None:
    rule = f"package q\n\nx if {{\n\t{test.format(phase)}\n\tinput.{member}\n}}\n"
    assert problems(opa, {"p.rego": RULE, "q.rego": rule}) == (
        f"q.rego:5: input.{member} is never there in phase {phase}",
    )


def test_so_it_is_in_a_head_in_an_else_and_inside_a_comprehension(opa: Opa) -> None:
    rule = (
        'package q\n\nx := input.result if input.phase == "call"\n\n'
        'y := 1 if input.phase == "result"\n\nelse := 2 if {\n\tinput.phase == "list"\n'
        "\tcount([a | some a in input.flow.sources]) > 0\n}\n"
    )
    assert problems(opa, {"p.rego": RULE, "q.rego": rule}) == (
        "q.rego:3: input.result is never there in phase call",
        "q.rego:9: input.flow is never there in phase list",
    )


@pytest.mark.parametrize(
    "body",
    [
        'input.phase == "call"\n\tinput.flow.label',
        'input.phase == "result"\n\tinput.result.x',
        'input.phase != "list"\n\tinput.flow.label',
        'not input.phase == "list"\n\tinput.flow.label',
        "input.arguments.x",
    ],
)
def test_a_member_that_the_phase_has_is_accepted(opa: Opa, body: str) -> None:
    rule = f"package q\n\nx if {{\n\t{body}\n}}\n"
    assert prepared(opa, {"p.rego": RULE, "q.rego": rule}).entrypoints == ("decision",)


def test_a_phase_that_does_not_exist_is_refused(opa: Opa) -> None:
    rule = 'package q\n\nx if input.phase == "lst"\n'
    assert problems(opa, {"p.rego": RULE, "q.rego": rule}) == ("q.rego:3: there is no phase lst",)


def test_what_is_the_gateways_own_cannot_be_taken(opa: Opa) -> None:
    assert problems(opa, {"p.rego": "package system.authz\n\nallow := true\n"}) == (
        "p.rego:3: data.system belongs to the gateway",
    )
    assert problems(opa, {"p.rego": "package douane\n\nconfig := {}\n"}) == (
        "p.rego:3: data.douane.config belongs to the gateway",
    )
    for text in ("system: {}", "douane: {config: {}}", "douane: 1"):
        assert (
            "belong to the gateway" in problems(opa, {"p.rego": "package q", "data.yaml": text})[0]
        )


def test_rego_that_cannot_be_read_is_refused_with_its_place(opa: Opa) -> None:
    found = problems(opa, {"p.rego": "package douane\n\ndecision := {\n"})
    assert found[0] == "p.rego:4: unexpected eof token"


def test_an_unused_variable_is_refused(opa: Opa) -> None:
    assert "x" in problems(opa, {"p.rego": "package q\n\ny if {\n\tx := 1\n}\n"})[0]


def test_a_policy_whose_own_tests_fail_is_refused(opa: Opa) -> None:
    failing = {"p_test.rego": "package p_test\n\ntest_it if false\n"}
    found = problems(opa, {"p.rego": RULE, **failing})
    assert found == ("p_test.rego:3: data.p_test.test_it fails",)


async def test_a_built_in_that_only_a_server_has_is_refused_with_its_place(
    opa: Opa, folder: Path
) -> None:
    (folder / "fetch.rego").write_text(
        'package fetch\n\nx := http.send({"method": "get", "url": "http://x"})\n'
    )
    (folder / "decision.rego").write_text(
        'package douane\n\ndecision := {"verdict": "allow", "reasons": [data.fetch.x]}\n'
    )
    settings = PolicySettings(path=str(folder))
    assert (await check(settings, {})).problems == ("fetch.rego:3: http.send needs `engine: opa`",)
    managed = PolicySettings(path=str(folder), engine=EngineKind.OPA)
    assert (await check(managed, {})).problems == ()


@pytest.mark.parametrize("files", [{}, {"other.rego": "package other\n\nx := 1\n"}])
async def test_a_folder_that_decides_nothing_denies_everything(
    tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for engine in EngineKind:
        settings = PolicySettings(path=str(tmp_path), engine=engine)
        (said,) = (await check(settings, {})).problems
        assert "data.douane.decision" in said
        decision = await evaluate(settings, {}, {"method": "x"})
        assert decision.verdict == "deny"
        assert [reason.code for reason in decision.reasons] == ["no_policy"]


async def test_a_policy_can_be_asked_without_being_put_in_force(folder: Path) -> None:
    for engine in EngineKind:
        settings = PolicySettings(path=str(folder), engine=engine, deadline=5.0)
        assert (await evaluate(settings, {}, {"target": {"name": "good"}})).verdict == "allow"
        assert (await evaluate(settings, {}, {"target": {"name": "bad"}})).verdict == "deny"


def test_a_policys_own_tests_can_be_run_by_themselves(folder: Path) -> None:
    (folder / "a_test.rego").write_text("package a_test\n\ntest_no if false\n")
    tests, _ = run_own_tests(PolicySettings(path=str(folder)))
    assert [test.passed for test in tests] == [False]


def test_data_in_a_file_that_opa_would_not_read_is_refused(opa: Opa, folder: Path) -> None:
    (folder / "access.yaml").write_text("deny: []")
    with pytest.raises(ConfigError) as caught:
        read_sources(PolicySettings(path=str(folder)), opa)
    assert caught.value.problems == (
        "access.yaml:1: data is read from files named data.yaml or data.json only",
    )


def test_a_policy_that_is_not_there_is_refused(opa: Opa, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_sources(PolicySettings(path=str(tmp_path / "none")), opa)


class Fetched(io.BytesIO):
    url = "https://example.com/bundle.tar.gz"


def test_a_bundle_is_fetched_over_https_only(
    opa: Opa, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bundle(opa, folder).read_bytes()
    monkeypatch.setattr("urllib.request.urlopen", lambda _, timeout: Fetched(content))
    settings = PolicySettings(path="https://example.com/bundle.tar.gz")
    digests = {read_sources(settings, opa).digest({}) for _ in range(2)}
    assert len(digests) == 1
    monkeypatch.setattr(Fetched, "url", "http://example.com/bundle.tar.gz")
    with pytest.raises(ConfigError, match="https"):
        read_sources(settings, opa)
    monkeypatch.setattr("gateway.policy.sources._LARGEST_BYTES", 10)
    monkeypatch.setattr(Fetched, "url", "https://example.com/bundle.tar.gz")
    with pytest.raises(ConfigError, match="too large"):
        read_sources(settings, opa)
    with pytest.raises(ConfigError):
        read_sources(PolicySettings(path="http://example.com/bundle.tar.gz"), opa)


def test_an_answer_that_is_cut_off_is_no_bundle(opa: Opa, monkeypatch: pytest.MonkeyPatch) -> None:
    class CutOff(Fetched):
        def read(self, _: int | None = -1) -> bytes:
            raise http.client.IncompleteRead(b"some of it")

    monkeypatch.setattr("urllib.request.urlopen", lambda _, timeout: CutOff())
    with pytest.raises(ConfigError, match="could not be fetched") as caught:
        read_sources(PolicySettings(path="https://example.com/bundle.tar.gz"), opa)
    assert caught.value.problems == ("no whole answer: IncompleteRead",)


def test_hidden_files_and_folders_are_no_part_of_it(opa: Opa, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "x.rego").write_text("package x")
    (folder / ".swp.rego").write_text("package x")
    assert list(read_sources(PolicySettings(path=str(folder)), opa).files) == ["decision.rego"]


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def bundle(opa: Opa, folder: Path, *more: str) -> Path:
    target = folder.parent / "bundle.tar.gz"
    ran = opa.run("build", "-b", ".", "-o", str(target), *more, cwd=folder)
    assert ran.ok, ran.err
    return target


async def test_a_bundle_is_a_policy_too(opa: Opa, folder: Path) -> None:
    (folder / "data.yaml").write_text("x: 1")
    settings = PolicySettings(path=str(bundle(opa, folder)))
    assert sorted(read_sources(settings, opa).files) == ["data.json", "decision.rego"]
    assert (await evaluate(settings, {}, {"target": {"name": "good"}})).verdict == "allow"


def test_a_signed_bundle_is_accepted(opa: Opa, folder: Path, keys: tuple[Path, Path]) -> None:
    signed = bundle(opa, folder, "--signing-key", str(keys[0]))
    settings = PolicySettings(path=str(signed), verification_key=keys[1])
    assert "decision.rego" in read_sources(settings, opa).files


def test_an_unsigned_bundle_is_refused_where_a_signature_is_wanted(
    opa: Opa, folder: Path, keys: tuple[Path, Path]
) -> None:
    for path in (bundle(opa, folder), folder):
        with pytest.raises(ConfigError):
            read_sources(PolicySettings(path=str(path), verification_key=keys[1]), opa)


def test_a_bundle_that_was_changed_after_it_was_signed_is_refused(
    opa: Opa, folder: Path, keys: tuple[Path, Path]
) -> None:
    signed = bundle(opa, folder, "--signing-key", str(keys[0]))
    unpacked = folder.parent / "unpacked"
    with tarfile.open(signed) as tar:
        for member in tar:
            member.name = member.name.lstrip("/")
            tar.extract(member, unpacked, filter="data")
    changed = next(unpacked.rglob("decision.rego"))
    changed.chmod(0o600)
    changed.write_text(changed.read_text().replace("good", "bad"))
    with tarfile.open(signed, "w:gz") as tar:
        tar.add(unpacked, arcname="/")
    with pytest.raises(ConfigError):
        read_sources(PolicySettings(path=str(signed), verification_key=keys[1]), opa)
