"""Asking an OPA server: its answers, its faults, and the one that the gateway runs itself."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.bundle import prepare
from gateway.policy.managed import ManagedEngine
from gateway.policy.opa import Opa
from gateway.policy.rest import OpaClient, RestEngine
from gateway.policy.settings import OpaServer
from gateway.policy.sources import Sources
from tests.policy.policy_questions import ONE_RULE

GOOD = {"target": {"name": "good"}}
ALLOW = {"verdict": "allow", "reasons": []}
PROVENANCE = {"provenance": {"bundles": {"douane": {"revision": "r1"}}}}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers that answer as OPA might."""
    runners = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


def saying(**body: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(body)

    return handler


async def ask(url: str, *, deadline: float = 2.0) -> Any:
    engine = await RestEngine.connect(OpaServer(url=url, token="t0ken"), deadline=deadline)
    try:
        return await engine.evaluate(GOOD)
    finally:
        await engine.close()


async def test_it_is_told_when_a_central_server_has_another_policy(serve: Serve) -> None:
    revision, told = ["r1"], list[int]()

    async def handler(_: web.Request) -> web.Response:
        bundles = {"douane": {"revision": revision[0]}}
        return web.json_response({"result": ALLOW, "provenance": {"bundles": bundles}})

    server = OpaServer(url=await serve(handler))
    engine = await RestEngine.connect(server, deadline=2.0, renamed=lambda: told.append(1))
    told.clear()
    await engine.evaluate(GOOD)
    assert told == []
    revision[0] = "r2"
    await engine.evaluate(GOOD)
    assert told == [1]
    await engine.close()


async def test_an_answer_that_comes_late_does_not_name_the_older_policy_again(
    serve: Serve,
) -> None:
    held, waits = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        revision = "r2"
        if (await request.json())["input"] == {"slow": True}:
            revision = "r1"
            waits.set()
            await held.wait()
        bundles = {"douane": {"revision": revision}}
        return web.json_response({"result": ALLOW, "provenance": {"bundles": bundles}})

    engine = await RestEngine.connect(OpaServer(url=await serve(handler)), deadline=60.0)
    late = asyncio.create_task(engine.evaluate({"slow": True}))
    await waits.wait()
    await engine.evaluate(GOOD)
    held.set()
    assert (await late).policy_digest == "revision:douane=r1"
    assert engine.digest == "revision:douane=r2"
    assert not engine.holds("revision:douane=r1")
    await engine.close()


async def test_a_server_without_bundles_is_named_anew_while_it_is_asked(serve: Serve) -> None:
    raw = ["package a"]

    async def handler(request: web.Request) -> web.Response:
        if request.path == "/v1/policies":
            await engine.evaluate(GOOD)  # somebody else's question, answered meanwhile
            return web.json_response({"result": [{"id": "a", "raw": raw[0], "ast": {}}]})
        return web.json_response({"result": ALLOW})

    client = OpaClient(await serve(handler), token="")
    await client.open()
    engine = RestEngine(client, deadline=60.0, digest="")
    engine._naming.heard("sha256:first", engine._naming.ask())
    before = await engine.refresh()
    raw[0] = "package b"
    after = await engine.refresh()
    assert (before != after, after.startswith("sha256:")) == (True, True)
    await engine.close()


async def test_a_central_server_is_asked_with_its_token(serve: Serve) -> None:
    seen: list[tuple[str, str, str | None, Any]] = []

    async def handler(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append((request.method, request.path, request.headers.get("Authorization"), body))
        return web.json_response({"result": ALLOW, **PROVENANCE})

    decision = await ask(await serve(handler))
    assert (decision.verdict, decision.policy_digest) == ("allow", "revision:douane=r1")
    assert seen[-1] == ("POST", "/v1/data/douane/decision", "Bearer t0ken", {"input": GOOD})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"result": None},
        {"result": True},
        {"result": {"allow": True}},
        {"result": {"verdict": "yes", "reasons": []}},
    ],
)
async def test_an_undefined_or_malformed_decision_is_no_answer(
    serve: Serve, body: dict[str, Any]
) -> None:
    with pytest.raises(PolicyUnavailable):
        await ask(await serve(saying(**body, **PROVENANCE)))


@pytest.mark.parametrize("provenance", [{}, {"bundles": {}}, {"bundles": {"b": {"revision": ""}}}])
async def test_a_server_that_cannot_name_its_policy_gives_no_answer(
    serve: Serve, provenance: dict[str, Any]
) -> None:
    with pytest.raises(PolicyUnavailable, match="which policy"):
        await ask(await serve(saying(result=ALLOW, provenance=provenance)))


async def test_a_server_without_bundles_is_named_by_its_rego(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/v1/policies":
            return web.json_response({"result": [{"id": "a", "raw": "package a", "ast": {}}]})
        return web.json_response({"result": ALLOW})

    decision = await ask(await serve(handler))
    assert decision.policy_digest.startswith("sha256:")
    assert len(decision.policy_digest) == 71


AUTHZ = (Path(__file__).parents[2] / "deploy" / "opa" / "authz.rego").read_text()
OTHERS = {"bundles": {"others": {"revision": "o1"}}}


class Central:
    """A central server whose policy may be there or not, and says how many people must approve.

    Its own rules, of who may ask it, come as a file: they are always there. With bundles so is
    another one.
    """

    def __init__(self, *, bundles: bool, people: int | None, raw: str = "package douane\n") -> None:
        self.there = True
        self.raw = raw
        self._bundles = bundles
        self._people = people

    async def answer(self, request: web.Request) -> web.Response:
        provenance: Any = {"version": "1"}
        if self._bundles:
            ours = PROVENANCE["provenance"]["bundles"] if self.there else {}
            provenance |= {"bundles": OTHERS["bundles"] | ours}
        result: Any = self._people if request.path.endswith("/pin_approvals") else "hold"
        if request.path == "/v1/policies":
            files = {"authz.rego": AUTHZ} | ({"a": self.raw} if self.there else {})
            result = [{"id": id_, "raw": raw, "ast": {}} for id_, raw in files.items()]
        elif not self.there:
            result = None
        return web.json_response(
            {"provenance": provenance} | ({} if result is None else {"result": result})
        )


@pytest.mark.parametrize("bundles", [True, False])
@pytest.mark.parametrize("people", [None, 2])
async def test_a_server_that_has_not_loaded_its_policy_does_not_say_that_one_person_is_enough(
    serve: Serve, bundles: bool, people: int | None
) -> None:
    central = Central(bundles=bundles, people=people)
    server = OpaServer(url=await serve(central.answer))
    engine = await RestEngine.connect(server, deadline=2.0)
    assert await engine.pin_approvals(GOOD) == (people or 1)
    central.there = False
    for _ in range(2):
        with pytest.raises(PolicyUnavailable, match="its policy"):
            await engine.pin_approvals(GOOD)
        await engine.refresh()
    fresh = await RestEngine.connect(server, deadline=2.0)
    with pytest.raises(PolicyUnavailable, match="its policy"):
        await fresh.pin_approvals(GOOD)
    central.there = True
    for one in (engine, fresh):
        assert await one.pin_approvals(GOOD) == (people or 1)
        await one.close()


@pytest.mark.parametrize(
    ("raw", "is_ours"),
    [
        ("package douane", True),
        ("# Who may do what.\n# package other\npackage douane # ours\n\nimport rego.v1\n", True),
        ("\r\n\tpackage  douane\r\ndefault x := 1\r\n", True),
        ("package douane; x := 1", True),
        ("package douane_test\n", False),
        ("package douane.access\n", False),
        ("package system.authz\n# package douane\n", False),
        ("package a\nimport data.douane\n", False),
    ],
)
async def test_a_policy_without_the_rule_is_known_by_its_package(
    serve: Serve, raw: str, *, is_ours: bool
) -> None:
    central = Central(bundles=False, people=None, raw=raw)
    engine = await RestEngine.connect(OpaServer(url=await serve(central.answer)), deadline=2.0)
    try:
        assert (await engine.pin_approvals(GOOD), is_ours) == (1, True)
    except PolicyUnavailable:
        assert not is_ours
    await engine.close()


async def test_a_policy_that_is_loaded_between_two_looks_says_how_many_people_approve(
    serve: Serve,
) -> None:
    central = Central(bundles=False, people=2)

    async def handler(request: web.Request) -> web.Response:
        central.there = central.there or request.path == "/v1/policies"
        return await central.answer(request)

    engine = await RestEngine.connect(OpaServer(url=await serve(handler)), deadline=2.0)
    central.there = False
    assert await engine.pin_approvals(GOOD) == 2
    await engine.close()


async def test_a_server_that_is_too_slow_gives_no_answer(serve: Serve) -> None:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.json_response({"result": ALLOW, **PROVENANCE})

    with pytest.raises(PolicyUnavailable):
        await ask(await serve(handler), deadline=0.05)


async def test_a_server_that_is_not_there_gives_no_answer() -> None:
    with pytest.raises(PolicyUnavailable):
        await ask("http://127.0.0.1:1")


@pytest.mark.parametrize("status", [302, 401, 404, 500])
async def test_any_other_status_is_no_answer(serve: Serve, status: int) -> None:
    elsewhere: list[str] = []

    async def other(request: web.Request) -> web.Response:
        elsewhere.append(request.path)
        return web.json_response({"result": ALLOW, **PROVENANCE})

    target = await serve(other)

    async def handler(_: web.Request) -> web.Response:
        return web.json_response(
            {"code": "x"}, status=status, headers={"Location": f"{target}/v1/data/douane/decision"}
        )

    with pytest.raises(PolicyUnavailable):
        await ask(await serve(handler))
    assert elsewhere == []


async def test_what_is_no_json_is_no_answer(serve: Serve) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="{", content_type="application/json")

    with pytest.raises(PolicyUnavailable):
        await ask(await serve(handler))


async def test_a_list_that_two_policies_answered_is_no_answer(serve: Serve) -> None:
    count = iter(range(1000))

    async def handler(_: web.Request) -> web.Response:
        revision = "r1" if next(count) < 20 else "r2"
        bundles = {"douane": {"revision": revision}}
        return web.json_response({"result": ALLOW, "provenance": {"bundles": bundles}})

    engine = await RestEngine.connect(OpaServer(url=await serve(handler)), deadline=2.0)
    with pytest.raises(PolicyUnavailable, match="changed"):
        await engine.evaluate_many([GOOD] * 40)
    assert len(await engine.evaluate_many([GOOD] * 40)) == 40
    await engine.close()


async def test_a_connection_that_the_server_closed_is_no_fault(serve: Serve) -> None:
    count = iter(range(1000))

    async def handler(request: web.Request) -> web.Response:
        if next(count) == 1 and request.transport is not None:
            request.transport.abort()
        return web.json_response({"result": ALLOW, **PROVENANCE})

    assert (await ask(await serve(handler))).verdict == "allow"


@pytest.fixture
async def managed(opa: Opa) -> AsyncIterator[ManagedEngine]:
    policy = prepare(opa, Sources(files={"p.rego": ONE_RULE.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    yield engine
    await engine.close()


def is_there(pid: int) -> bool:
    """Whether a process runs: who is dead and waits to be buried does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def status_of(engine: ManagedEngine, method: str, path: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connector = aiohttp.UnixConnector(path=str(engine.socket))
    async with (
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
        session.request(method, f"http://opa{path}", json={"input": GOOD}) as answer,
    ):
        return answer.status


async def test_our_own_server_answers_only_to_its_token(managed: ManagedEngine) -> None:
    assert (await managed.evaluate(GOOD)).verdict == "allow"
    decision = "/v1/data/douane/decision"
    assert await status_of(managed, "POST", decision, None) == 401
    assert await status_of(managed, "POST", decision, "guess") == 401
    assert await status_of(managed, "GET", "/health", None) == 401


async def test_its_token_opens_nothing_but_the_two_questions(managed: ManagedEngine) -> None:
    token = managed._client.headers["Authorization"].removeprefix("Bearer ")
    assert await status_of(managed, "POST", "/v1/data/douane/decision", token) == 200
    for method, path in (
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/x"),
        ("PUT", "/v1/data/douane/access"),
        ("PUT", "/v1/data/douane/decision"),
        ("GET", "/v1/data/douane/decision"),
        ("PATCH", "/v1/data"),
        ("POST", "/v1/query"),
        ("POST", "/v1/data"),
        ("GET", "/v1/config"),
    ):
        assert await status_of(managed, method, path, token) == 401, path


async def test_nobody_else_can_reach_its_socket_or_read_its_token(managed: ManagedEngine) -> None:
    folder = managed.socket.parent
    assert folder.stat().st_mode & 0o077 == 0
    token = managed._client.headers["Authorization"].removeprefix("Bearer ")
    process = managed._process
    assert process is not None
    command = Path(f"/proc/{process.pid}/cmdline")
    told = command.read_bytes() if command.exists() else b""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(token.encode() in content for content in [told, *files])


async def test_it_is_started_again_when_it_dies(managed: ManagedEngine) -> None:
    process = managed._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    with pytest.raises(PolicyUnavailable):
        await managed.evaluate(GOOD)
    for _ in range(200):
        try:
            assert (await managed.evaluate(GOOD)).verdict == "allow"
            break
        except PolicyUnavailable:
            await asyncio.sleep(0.05)
    else:
        pytest.fail("it did not come back")


async def test_a_bug_in_starting_it_again_is_no_end_of_that(
    managed: ManagedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, tried = managed._spawn, 0

    async def broken() -> None:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise KeyError("a bug")
        await spawn()

    monkeypatch.setattr(managed, "_spawn", broken)
    process = managed._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while managed._process is process:
            await asyncio.sleep(0.02)
    await managed._until_ready()
    assert (await managed.evaluate(GOOD)).verdict == "allow"


async def test_it_ends_with_the_engine_and_leaves_nothing(opa: Opa) -> None:
    policy = prepare(opa, Sources(files={"p.rego": ONE_RULE.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    process = engine._process
    assert process is not None
    await engine.close()
    assert process.returncode is not None
    assert not engine.socket.parent.exists()


KILLED = """
import asyncio
from gateway.policy.bundle import prepare
from gateway.policy.managed import ManagedEngine
from gateway.policy.sources import Sources
from gateway.policy.toolchain import find_opa
from tests.policy.policy_questions import ONE_RULE

async def main():
    opa = find_opa()
    policy = prepare(opa, Sources(files={"p.rego": ONE_RULE.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    print(engine._process.pid, engine.socket.parent, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux is not here")
async def test_it_ends_with_a_gateway_that_is_killed_and_the_next_one_clears_up(opa: Opa) -> None:
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert gateway.stdout is not None
        pid, folder = (await gateway.stdout.readline()).decode().split()
        policy = prepare(opa, Sources(files={"p.rego": ONE_RULE.encode()}), {})
        beside = await ManagedEngine.start(opa, policy, deadline=5.0)
        await beside.close()
        assert is_there(int(pid))
        assert Path(folder).exists()
    finally:
        gateway.kill()
        await gateway.wait()
    async with asyncio.timeout(60):
        while is_there(int(pid)):
            await asyncio.sleep(0.02)
    assert Path(folder).exists()
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    assert engine.socket.parent.exists()
    assert not Path(folder).exists()
    await engine.close()


async def test_a_server_that_cannot_be_started_is_an_error(opa: Opa, tmp_path: Path) -> None:
    policy = prepare(opa, Sources(files={"p.rego": ONE_RULE.encode()}), {})
    broken = tmp_path / "opa"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    for binary in (broken, tmp_path / "missing"):
        with pytest.raises(ConfigError):
            await ManagedEngine.start(Opa(binary), policy, deadline=1.0)


async def test_the_token_is_not_told() -> None:
    assert "t0ken" not in repr(OpaServer(url="http://x", token="t0ken"))
    assert "t0ken" not in repr(OpaClient("http://x", token="t0ken"))
