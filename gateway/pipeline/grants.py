"""What a program may call: each of its calls needs policy's leave and, where it has grants, theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.domain.approvals import ApprovalId
from gateway.domain.calls import AccessRequest, Call
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.nodes import amount
from gateway.domain.premises import Premise
from gateway.domain.scripts import InScript, Script, ScriptId, ToolGrant
from gateway.domain.tools import Target
from gateway.errors import Denied, LimitExceeded, Unauthenticated
from gateway.pipeline.programs import covers, fixes_places
from gateway.pipeline.trail import Trail
from gateway.ports import Clock, PolicyEngine
from gateway.ports.scripts import ScriptStore
from gateway.turns import QUICK_NODES, in_turn

UNHELD: Final[Sequence[int | None]] = (None,)
"""The place of the grant for a call that needs none."""


class Grants:
    """Holds programs to what they were given. Grants narrow: what policy denies stays denied.

    Where policy asks, a grant that a person gave is their answer, for calls to places that stand in it.
    """

    def __init__(self, *, scripts: ScriptStore, policy: PolicyEngine, clock: Clock) -> None:
        self._scripts = scripts
        self._policy = policy
        self._clock = clock

    def running(self, id_: ScriptId) -> Script:
        """Return the program that a token was given out for.

        Raises:
            Unauthenticated: It has ended, or its token was revoked.

        """
        script = self._scripts.find(id_, now=self._clock())
        if script is None:
            raise Unauthenticated("the program that this token is for has ended", detail=id_)
        return script

    async def covering(self, access: AccessRequest, within: InScript) -> Sequence[int | None]:
        """Return the places of the grants that a call `within` a program falls under; `None` where none is needed.

        Raises:
            Denied: Its program has grants and none is for this call, or it may call nothing more.
            RateLimited: So much of the same person's is looked at already.

        """
        if self._scripts.find(within.script.id, now=self._clock()) is None:
            raise _ended("it ran out, or somebody ended it")
        if within.script.run not in ("", access.run.id):
            # What it has seen is not in the label by which the call would be judged.
            raise _ended("the run in which it began has ended")
        if within.script.grants is None:
            return UNHELD
        # A token is as good as what it stands for in this run, which is the program's own.
        arguments = access.call.params_as_written.get("arguments") or {}
        grants = within.script.grants
        nodes = amount([grant.arguments for grant in grants], QUICK_NODES)
        who = access.principal.person
        if found := await in_turn(who, nodes, _covering, grants, access.target, arguments):
            return found
        message = "this program was given no leave for this tool with these arguments"
        raise Denied(message, reasons=[("not_granted", message)])

    async def consulted(
        self,
        access: AccessRequest,
        decision: Decision,
        places: Sequence[int | None],
        trail: Trail,
    ) -> tuple[AccessRequest, Decision, Sequence[int | None]]:
        """Return the call and its decision, where a grant stands for the answer that is asked for.

        Policy is asked once more, knowing which person gave the grant, and what it says counts. Last
        come the places of the grants that the call may use up: that one, and others by the same yes.
        """
        if decision.verdict is not Verdict.ASK:
            return access, decision, places
        granted = [
            (place, grant)
            for place in places
            if (grant := _at(access.call, place)) is not None
            and grant.approval_id
            and fixes_places(grant, access)
        ]
        if not granted:
            return access, decision, places
        grant = granted[0][1]
        usable = [place for place, one in granted if one.approval_id == grant.approval_id]
        trail.approval(ApprovalId(grant.approval_id))
        answer = {
            "id": grant.approval_id,
            "by": grant.approved_by,
            "span": "grant",
            "note": "",
        }
        knowing = replace(access, asked={**access.asked, "approval": answer})
        again = trail.decision(await self._policy.evaluate(trail.asked(knowing.asked)))
        return knowing, again, usable

    def require_left(self, call: Call, places: Sequence[int | None], trail: Trail) -> None:
        """Return unless its program's budget was found used up when the call was to be recorded.

        Raises:
            LimitExceeded: Nothing was left of it, or the program was ended meanwhile.

        """
        if call.script is not None and Premise.BUDGET in trail.failed:
            raise LimitExceeded(
                "the calls that this program was given are used up",
                detail=f"{call.script.script.id}, grants {list(places)}",
            )


def _covering(
    grants: Sequence[ToolGrant], target: Target, arguments: Mapping[str, Any]
) -> Sequence[int]:
    return [place for place, grant in enumerate(grants) if covers(grant, target, arguments)]


def _at(call: Call, place: int | None) -> ToolGrant | None:
    if call.script is None or call.script.script.grants is None or place is None:
        return None
    return call.script.script.grants[place]


def _ended(why: str) -> Denied:
    return Denied("the program that makes this call has ended", reasons=[("script_ended", why)])
