"""No program in TypeScript reaches the host: not with all walls, and not where one is missing."""

from itertools import product
from pathlib import Path

import pytest

from gateway.domain.programs import Program
from tests.cases import sampled
from tests.sandbox.attempting import TOOLS, Host, Seen, tried
from tests.sandbox.deno_escapes import ATTEMPTS, KINDS
from tests.sandbox.deno_variants import (
    typescript_engine,
    with_all_names,
    with_all_permissions,
    without_jail,
)
from tests.sandbox.escapes import Attempt

OUTWARD = (
    *("files", "network", "remote modules", "environment", "processes", "internals", "storage"),
    "protocol",
)
"""Kinds of attempts to reach the host; the others use something up."""
THIRD, OTHERS = "every third", "the others"
FEW = ("processes", "protocol")
"""Kinds that stand for the others where a wall is missing."""
SEEN = {
    "files": "read_text read_bytes opened fetched imported_text node_read bare_read required builtin "
    "written appended node_written removed renamed linked made_folder database worker_reads",
    "network": "connected fetched socket events node_socket node_http node_http2 node_tls imported",
    "remote modules": "data_that_reads data_of_node blob_that_reads with_blank",
    "environment": "variable variables node_variables",
    "processes": "command spawned shell node_exec node_spawn",
    "internals": "vm of_function evaluated",
}
"""What reaches the host if nothing stands in its way, by kind."""


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize(
    ("kind", "which"), sampled(product(KINDS, (THIRD, OTHERS)), lambda case: case[1] == THIRD)
)
async def test_no_attempt_in_typescript_reaches_the_host(
    kind: str, which: str, tmp_path: Path
) -> None:
    assert await _wrong(tmp_path, kind, which) == []


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("kind", sampled(OUTWARD, FEW.__contains__))
async def test_without_a_jail_none_does(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jail(monkeypatch, tmp_path)
    assert await _wrong(tmp_path, kind, THIRD) == []


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("kind", sampled(OUTWARD, FEW.__contains__))
async def test_without_a_jail_and_with_every_name_left_in_permissions_hold(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jail(monkeypatch, tmp_path)
    with_all_names(monkeypatch, tmp_path)
    # How they end is another matter: much is there that reaches nothing.
    wrong = await _wrong(tmp_path, kind, THIRD, may_wait=True)
    assert [one for one in wrong if ": ended " not in one] == []


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("kind", sampled(SEEN, {"processes"}.__contains__))
async def test_attempts_are_seen_where_nothing_stands_in_their_way(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jail(monkeypatch, tmp_path)
    with_all_names(monkeypatch, tmp_path)
    with_all_permissions(monkeypatch)
    named = {one.name: one for one in ATTEMPTS if one.kind == kind}
    unseen = []
    async with typescript_engine(tmp_path) as engine:
        for name in SEEN[kind].split():

            async def run(host: Host, attempt: Attempt, seen: Seen) -> bool:
                program = Program(code=host.code_of(attempt), tools=TOOLS)
                result = await engine.run(program, seen, redact=str)
                return not host.file.exists() or bool(host.reached(attempt, result, seen))

            own = tmp_path / f"host-{name}"
            own.mkdir()
            host = Host(own)
            try:
                if not await run(host, named[name], Seen()):
                    unseen.append(name)
            finally:
                host.listening.close()
    assert unseen == []


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("names", [True, False], ids=["names left in", "as shipped"])
async def test_what_one_program_stores_the_next_does_not_find(
    names: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jail(monkeypatch, tmp_path)
    if names:
        with_all_names(monkeypatch, tmp_path)
    stores = 'localStorage.setItem("a", "b"); return localStorage.getItem("a")'
    finds = 'return localStorage.getItem("a")'
    told = []
    async with typescript_engine(tmp_path) as engine:
        for code in (stores, finds):
            result = await engine.run(Program(code=code, tools=TOOLS), Seen(), redact=str)
            told.append(result.value if not result.error else result.error.splitlines()[0])
    gone = "ReferenceError: localStorage is not defined"
    assert told == (["b", None] if names else [gone, gone])


def test_there_are_as_many_attempts_in_typescript_as_are_told() -> None:
    assert len({(attempt.kind, attempt.name) for attempt in ATTEMPTS}) == len(ATTEMPTS)
    page = Path(__file__).parents[2] / "docs" / "sandbox.md"
    assert f"{len(ATTEMPTS)} in TypeScript" in " ".join(page.read_text().split())


async def _wrong(folder: Path, kind: str, which: str, *, may_wait: bool = False) -> list[str]:
    secrets = folder / "host"
    secrets.mkdir()
    host = Host(secrets)
    try:
        async with typescript_engine(folder) as engine:
            all_of_kind = [attempt for attempt in ATTEMPTS if attempt.kind == kind]
            third = all_of_kind[::3]
            mine = third if which == THIRD else [one for one in all_of_kind if one not in third]
            return [
                what
                for attempt in mine
                for what in await tried(engine, host, attempt, may_wait=may_wait)
            ]
    finally:
        host.listening.close()
