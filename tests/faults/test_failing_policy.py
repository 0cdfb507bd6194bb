"""A policy that is slow, wrong or gone is a no with a code of its own: nothing is guessed or sent."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.faults.scene import Scene, Told, eventually, scene
from tests.running import rules_in
from tests.servers.process import ROOT
from tests.servers.raw import Script, answers, hangs, resets

RUNAWAY = """\
package douane

deny contains {"code": "never", "message": "never said"} if {
	input.phase == "call"
	input.target.name == "slow"
	count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a == b]) == 0
}
"""
ALLOW: dict[str, Any] = {"verdict": "allow", "reasons": []}
POLICY = {"path": str(ROOT / "policies"), "engine": "opa", "deadline": "2s"}
REFUSED = [("outcome", "policy_unavailable")]


def assert_refused(at: Scene, made: Told) -> None:
    """Nothing was sent, and one record says so."""
    assert (made.code, at.forwarded(made), at.trail(made)) == ("policy_unavailable", 0, REFUSED)
    (record,) = at.records(made)
    assert record["verdict"] == "error"


def test_a_policy_that_computes_without_end_is_stopped(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    rules_in(policies)
    (policies / "runaway.rego").write_text(RUNAWAY)
    with scene(tmp_path, policies=policies) as at:
        assert_refused(at, at.call("slow"))
        assert at.call().code is None

        # A policy that cannot be used changes nothing, and the log says that it was refused.
        (policies / "runaway.rego").write_text("package douane\n\ndecision := {")
        assert eventually(lambda: any(one.get("code") == "refused" for one in at.log()))
        assert_refused(at, at.call("slow"))
        assert at.call().code is None
        assert at.readiness == (200, {})


def opa_of(at: Scene) -> int:
    """The process id of the gateway's own OPA server."""
    pid = at.running.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [int(one) for one in children if b"opa" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return found


def stands_still(pid: int) -> bool:
    """Whether every thread of a process is stopped: the signal reaches them one by one."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    states = [(one / "stat").read_text().rpartition(")")[2].split()[0] for one in threads]
    return {*states} == {"T"}


def test_an_opa_server_that_hangs_or_dies_is_a_refusal_until_it_is_back(tmp_path: Path) -> None:
    with scene(tmp_path, policy={**POLICY, "opa": {"managed": True}}) as at:
        assert at.call().code is None
        first = opa_of(at)
        os.kill(first, signal.SIGSTOP)
        assert eventually(lambda: stands_still(first))
        try:
            assert_refused(at, at.call())
        finally:
            os.kill(first, signal.SIGCONT)
        assert eventually(lambda: at.call().code is None)

        os.kill(first, signal.SIGKILL)
        meanwhile = at.call()
        if meanwhile.code is None:  # another was up before it was asked
            assert opa_of(at) != first
        else:
            assert_refused(at, meanwhile)
        assert eventually(lambda: at.call().code is None)
        assert opa_of(at) != first


def decides(decision: Any) -> Script:
    """Answer as OPA does; pins are held, and one person approves them."""

    async def script(request: web.Request) -> web.StreamResponse:
        asked = request.path.rpartition("/")[2]
        result = {"pin": "hold", "pin_approvals": 1}.get(asked, decision)
        body = {"result": result, "provenance": {"bundles": {"ours": {"revision": "r1"}}}}
        return web.json_response(body if result is not None else {})

    return script


WRONG: dict[str, Script] = {
    "hangs": hangs,
    "resets": resets,
    "fails": answers('{"code": "internal_error"}', status=500),
    "redirects": answers(status=302, headers={"Location": "http://127.0.0.1:1/"}),
    "says no JSON": answers("allow"),
    "is undefined": decides(None),
    "says true": decides(True),
    "says yes": decides({**ALLOW, "verdict": "yes"}),
    "has no reasons": decides({"verdict": "allow"}),
    "asks the impossible": decides({**ALLOW, "obligations": [{"duty": "bless"}]}),
    "says too much": decides({**ALLOW, "more": "x" * 5_000_000}),
}


@pytest.fixture(scope="module")
def central(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Raw]]:
    """A gateway that asks a policy server which a test makes answer as it likes."""
    with raw_in_a_thread() as opa:
        opa.play(decides(ALLOW))
        url = opa.url.removesuffix("/mcp")
        folder = tmp_path_factory.mktemp("central")
        with scene(folder, policy={**POLICY, "opa": {"url": url}}) as at:
            yield at, opa


@pytest.mark.parametrize("fault", WRONG)
def test_a_policy_server_that_gives_no_usable_answer_is_a_refusal(
    central: tuple[Scene, Raw], fault: str
) -> None:
    at, opa = central
    opa.play(WRONG[fault])
    made = at.call()
    opa.play(decides(ALLOW))
    assert_refused(at, made)
    assert eventually(lambda: at.call().code is None)
