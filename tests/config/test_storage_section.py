"""The section `storage`: gateways that share a database have nothing that only one of them knows."""

from pathlib import Path

import pytest

from gateway.config import Config, parse
from gateway.errors import ConfigError

FILE = Path("/etc/douane/douane.yaml")
HEAD = """\
version: 1
public_url: https://douane.example.com
servers: {mail: {url: "http://127.0.0.1:9001/mcp"}}
"""
KEY = "auth: {key_encryption_key: 'file:/etc/douane/kek'}\n"
SHARED = "storage: {kind: postgres, url: 'env:DATABASE'}\n"
PASSWORD = "canary-9a1"
ADDRESS = f"postgresql://douane:{PASSWORD}@db/douane"
EDGE = "edge: {key: 'env:EDGE', servers: {m: mail}}"
GRPC = "grpc: {listen: '127.0.0.1:9100'}"


def read(text: str) -> Config:
    return parse(HEAD + text, file=FILE, environ=None)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [one.split(": ", 1)[1] for one in caught.value.problems]


def test_everything_is_in_files_of_one_gateway_unless_it_is_said() -> None:
    storage = read("").storage
    assert (storage.kind, storage.url, storage.durability) == ("sqlite", None, "power")


def test_a_database_is_shared_by_gateways_that_have_one_key() -> None:
    storage = read(KEY + SHARED).storage
    assert (storage.kind, str(storage.url), storage.durability) == (
        "postgres",
        "env:DATABASE",
        "power",
    )


def test_a_key_in_a_folder_would_be_another_one_at_each_gateway() -> None:
    (told,) = problems(SHARED)
    assert told.startswith("storage: `kind: postgres` needs `auth.key_encryption_key`")


def test_a_spool_is_refused_as_nobody_can_say_there_whether_a_call_may_go() -> None:
    (told,) = problems(KEY + SHARED + "audit: {on_failure: spool}\n")
    assert told.startswith("storage: `kind: postgres`: leave out `audit.on_failure: spool`")


@pytest.mark.parametrize(
    "planes",
    [
        f"authzen: {{{EDGE}}}",
        f"ext_authz: {{{EDGE}}}, {GRPC}",
        f"ext_proc: {{{EDGE}}}, {GRPC}",
        f"ext_mcp: {{{EDGE}}}, {GRPC}",
        f"experimental_interceptors: {{{EDGE.removesuffix('}')}, client: cron}}}}",
    ],
    ids=lambda text: text.partition(":")[0],
)
def test_planes_are_refused_of_whatever_kind(planes: str) -> None:
    section = f"planes: {{{planes}}}\n"
    read(section)
    (told,) = problems(KEY + SHARED + section)
    assert told.startswith("storage: `kind: postgres`: leave out `planes`")


def test_a_server_that_each_gateway_would_start_is_refused_by_name() -> None:
    own = "servers: {repo: {command: [repo-server]}}\n"
    with pytest.raises(ConfigError) as caught:
        parse("".join((*HEAD.splitlines(keepends=True)[:2], own, KEY, SHARED)), file=FILE)
    (told,) = caught.value.problems
    assert "storage: `kind: postgres`: every gateway would start a `repo` of its own" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("storage: {kind: postgres}\n", "storage.url: say by reference where it is"),
        ("storage: {kind: postgres, url: null}\n", "storage.url: say by reference where it is"),
        ("storage: {url: 'env:DATABASE'}\n", "storage.url: is for `kind: postgres` only"),
        ("storage: {durability: process}\n", "storage.durability: is for `kind: postgres` only"),
        ("storage: {durability: replicated}\n", "storage.durability: is for `kind: postgres` only"),
    ],
)
def test_what_would_be_guessed_is_refused(text: str, told: str) -> None:
    assert problems(KEY + text)[0].startswith(told)


def test_how_a_record_is_kept_is_said_where_it_is_kept() -> None:
    (told,) = problems(KEY + SHARED + "audit: {durability: process}\n")
    assert told.startswith("storage: `kind: postgres`: write `storage.durability`")


def test_the_address_comes_by_reference_and_is_in_no_error() -> None:
    (told,) = problems(KEY + f"storage: {{kind: postgres, url: '{ADDRESS}'}}\n")
    assert told.startswith("storage.url: secrets come by reference only")
    assert PASSWORD not in told
