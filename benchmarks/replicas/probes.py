"""What ends while calls go on: a run's label is raised, a yes used up, a definition, a policy, all of it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.replicas.commands import NotDone, Refused, done
from benchmarks.replicas.history import RESULT, Call, Ended, History, Yes
from benchmarks.replicas.load import ASKED, CARRIED, PINNED, PRIVATE, RULED, Caller, question_of
from benchmarks.replicas.members import SERVER, Member

RULES = """\
package douane

decision := {{"verdict": "ask", "reasons": [{{"code": "outside", "message": "it goes outside"}}]}} if {{
	input.phase == "call"
	input.target.name == "{asked}"
	not is_object(input.approval)
}} else := {{"verdict": "deny", "reasons": [{{"code": "read", "message": "private data was read"}}]}} if {{
	input.phase == "call"
	input.target.name == "{carried}"
	input.flow.label.confidentiality == "private"
}} else := {{"verdict": "deny", "reasons": [{{"code": "closed", "message": "closed for now"}}]}} if {{
	input.phase == "call"
	input.target.name == "{closed}"
}} else := {{"verdict": "allow", "reasons": []}}
"""
_LOOKS_S = 0.2
_IN_FORCE_S = 100.0
_ANSWERED = ("bad_command", "not_found", "state_changed")
_TRIES = 3
"""So often each thing that has ended is tried at every gateway."""

Known = Callable[[], Awaitable[Caller]]


def rules(*, closed: bool) -> str:
    """Return a policy, which denies `RULED` if it is `closed`."""
    name = RULED if closed else "nothing"
    return RULES.format(asked=ASKED, carried=CARRIED, closed=name)


class Office:
    """Whoever says what holds, at any of the gateways that answer."""

    def __init__(
        self, members: Sequence[Member], history: History, policies: Path, dice: random.Random
    ) -> None:
        self._members = members
        self._history = history
        self._rules = policies / "rules.rego"
        self._dice = dice
        self._digest: str | None = None

    async def approve(self, *names: str) -> None:
        """Have what the server shows be approved: what is named, else all."""
        rows = await self.done("pins.list", server=SERVER, status=None)
        wanted = [row for row in rows if not names or row["name"] in names]
        reviewed = [
            {
                **{k: row[k] for k in ("name", "kind", "profile")},
                "digest": row["observed_digest"],
                "address": row["observed_address"],
            }
            for row in wanted
        ]
        await self.done("pins.approve", server=SERVER, reviewed=reviewed, note="for a test")

    async def ends(self, what: str) -> Ended:
        """Have something end; return since when it is known to be over: for ever ago, if it is not known."""
        span = Ended(what=what, tool={"pin": PINNED, "policy": RULED}.get(what, ""))
        with suppress(NotDone):
            await self._end(what)
            span.since_s = time.monotonic()
            self._history.ended.append(span)
        return span

    async def begins(self, span: Ended) -> None:
        """Have what had ended hold again.

        Raises:
            NotDone: Nobody says that it does.

        """
        span.until_s = time.monotonic()
        match span.what:
            case "pin":
                await self.approve(PINNED)
            case "stop":
                held = (await self.done("policy.stopped"))["standstill"] or ""
                with suppress(Refused):  # somebody has heard it before
                    await self.done(
                        "policy.go", settled=["not_found"], standstill=held, note="for a test"
                    )
            case _:
                await self._in_force(closed=False)

    async def done(self, command: str, **arguments: Any) -> Any:
        """Have any of the gateways obey; see `commands.done`."""
        sockets = [member.socket for member in self._members]
        self._dice.shuffle(sockets)
        return await done(sockets, command, **arguments)

    async def _end(self, what: str) -> None:
        match what:
            case "pin":
                named = {"server": SERVER, "name": PINNED, "kind": "tool", "profile": None}
                await self.done("pins.revoke", **named, note="for a test")
            case "stop":
                await self.done("policy.stop", note="for a test")
            case _:
                await self._in_force(closed=True)

    async def _in_force(self, *, closed: bool) -> None:
        """Return once another policy is in force than before.

        Raises:
            NotDone: It is not, in a long time.

        """
        before = (await self.done("policy.status"))["digest"]
        new = self._rules.with_suffix(".new")
        new.write_text(rules(closed=closed))
        new.replace(self._rules)
        patience = time.monotonic() + _IN_FORCE_S
        while (await self.done("policy.status"))["digest"] == before:
            if time.monotonic() > patience:
                raise NotDone("the policy does not come into force")
            await asyncio.sleep(_LOOKS_S)


async def reading(known: Known, history: History, dice: random.Random, gateways: int) -> None:
    """Until cancelled, have another client read what is private at one gateway, and try at all of them."""
    while True:
        caller = await known()
        first = await _until_carried(caller, CARRIED, dice, gateways)
        read = await _until_carried(caller, PRIVATE, dice, gateways)
        history.ended.append(
            Ended(what="label", tool=CARRIED, client=first.client, since_s=read.ended_s)
        )
        for at in [*range(gateways)] * _TRIES:
            await caller.call(CARRIED, at)
            await asyncio.sleep(dice.random() * _LOOKS_S)


async def asking(
    caller: Caller, office: Office, history: History, dice: random.Random, gateways: int
) -> None:
    """Until cancelled, have a person say yes to one call, and make it at all gateways at once."""
    number = 0
    while True:
        number += 1
        question = await _question(caller, dice, gateways, f"question {number}")
        try:
            await office.done("approvals.allow", settled=_ANSWERED, approval=question, note="fine")
        except NotDone:
            continue  # it may have been said; the next question is another one in any case
        yes = Yes(id=question)
        history.yeses.append(yes)
        while not yes.over:
            made = (caller.call(ASKED, at, text=f"question {number}") for at in range(gateways))
            answers = await asyncio.gather(*made)
            yes.over = any(_used_up(yes.id, *answer) for answer in answers)
            await asyncio.sleep(_LOOKS_S)


async def _question(caller: Caller, dice: random.Random, gateways: int, text: str) -> str:
    while True:
        call, message = await caller.call(ASKED, dice.randrange(gateways), text=text)
        if call.answer == "approval_required" and (question := question_of(message)):
            return question
        await asyncio.sleep(_LOOKS_S)


def _used_up(yes: str, call: Call, message: Any) -> bool:
    if call.answer == "approval_required":
        return question_of(message) not in ("", yes)
    return call.answer == RESULT


async def _until_carried(caller: Caller, tool: str, dice: random.Random, gateways: int) -> Call:
    while True:
        call, _ = await caller.call(tool, dice.randrange(gateways))
        if call.answer == RESULT:
            return call
        await asyncio.sleep(_LOOKS_S)
