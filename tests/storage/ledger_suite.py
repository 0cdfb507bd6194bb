"""What every ledger keeps to; each backend's test module takes this class over.

A module that does has a fixture `desk`, which gives a `Desk`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from gateway.domain.approvals import ApprovalId
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT
from gateway.domain.premises import NOTHING, Premise, Premises, Uses
from gateway.domain.scripts import Script, ScriptId, ToolGrant
from gateway.errors import Changed
from gateway.ports import Ledger
from gateway.storage.runs import Runs
from tests.storage.suite import NOW, source, target

MAIL = target()
YES = ApprovalId("a")
SCRIPT = ScriptId("s_1")

BEHIND = {
    "run": ("UPDATE runs SET version = version + 1", Premise.RUN),
    "end": ("UPDATE runs SET ended = true", Premise.RUN),
    "pin": ("UPDATE pins SET status = 'revoked'", Premise.PIN),
    "definition": ("UPDATE pins SET approved = '{}'", Premise.PIN),
    "address": ("UPDATE pins SET approved_identity = 'elsewhere'", Premise.PIN),
    "approval ends": ("UPDATE pins SET expires_at = 1.0", Premise.PIN),
    "yes": ("UPDATE approvals SET state = 'used'", Premise.APPROVAL),
    "yes runs out": ("UPDATE approvals SET expires_at = 1.0", Premise.APPROVAL),
}
"""What changes in the tables, and what a call finds changed that rests on it."""


class Desk:
    """A ledger over real tables, with what calls rest on: a live run, an approved pin, a yes."""

    ledger: Ledger
    runs: Runs
    premises: Premises

    async def put(
        self,
        name: str = "one",
        uses: Uses = NOTHING,
        fields: Mapping[str, Any] = MappingProxyType({}),
        **other: Any,
    ) -> LogEntry:
        record = AuditRecord(kind=RecordKind.INTENT, time=NOW, id=name, fields=fields)
        return await self.ledger.put(record, replace(self.premises, **other), uses)

    async def ids(self) -> Sequence[str]:
        """Return the ids of all records, in their order."""
        raise NotImplementedError

    async def behind(self, sql: str) -> None:
        """Change a table, and let memory know nothing of it."""
        raise NotImplementedError

    async def revoke(self) -> None:
        raise NotImplementedError

    async def decide_by(self, policy: str) -> None:
        raise NotImplementedError

    async def begin(self, script: Script) -> None:
        raise NotImplementedError

    async def use_yes(self) -> None:
        raise NotImplementedError

    async def state_of_yes(self) -> str:
        raise NotImplementedError

    async def failed(self, uses: Uses = NOTHING, **other: Any) -> frozenset[str]:
        """Return what was found changed; nothing was written by then."""
        before = await self.ids()
        with pytest.raises(Changed) as found:
            await self.put("refused", uses, **other)
        assert await self.ids() == before
        return found.value.what


def script() -> Script:
    granted = ToolGrant(server=MAIL.server, tool="send", most=5, arguments={})
    return Script(
        id=SCRIPT,
        principal="emma",
        sha256="ab" * 32,
        grants=(granted,),
        most=7,
        parent="d_1",
        began=NOW,
        expires_at=NOW + 60,
    )


class LedgerSuite:
    async def test_what_holds_is_written(self, desk: Desk) -> None:
        entry = await desk.put()
        assert (entry.id, await desk.ids()) == ("one", ["one"])

    async def test_a_run_that_was_raised_has_changed(self, desk: Desk) -> None:
        await desk.runs.raise_label(desk.premises.run, STRICTEST_DEFAULT, source())
        assert await desk.failed() == {Premise.RUN}
        assert (await desk.put(version=desk.premises.version + 1)).id == "one"

    async def test_a_run_that_was_lowered_has_changed(self, desk: Desk) -> None:
        run = await desk.runs.raise_label(desk.premises.run, STRICTEST_DEFAULT, source())
        look = await desk.runs.look_at(run.id)
        await desk.runs.lower_label(run.id, run.label, BOTTOM, look=look)
        assert await desk.failed(version=run.version) == {Premise.RUN}

    async def test_a_run_that_has_ended_is_no_premise(self, desk: Desk) -> None:
        await desk.runs.end(desk.premises.run)
        assert await desk.failed() == {Premise.RUN}

    async def test_a_definition_that_was_revoked_has_changed(self, desk: Desk) -> None:
        await desk.revoke()
        assert await desk.failed() == {Premise.PIN}

    async def test_another_policy_has_changed(self, desk: Desk) -> None:
        await desk.decide_by("sha256:next")
        assert await desk.failed() == {Premise.POLICY}

    async def test_a_yes_that_is_used_is_none(self, desk: Desk) -> None:
        await desk.use_yes()
        assert await desk.failed() == {Premise.APPROVAL}

    async def test_what_rests_on_no_definition_and_no_yes_needs_none(self, desk: Desk) -> None:
        await desk.revoke()
        await desk.use_yes()
        assert (await desk.put(pinned=None, profile=None, yes=None)).id == "one"

    async def test_a_definition_without_a_profile_has_no_pin(self, desk: Desk) -> None:
        assert await desk.failed(profile=None) == {Premise.PIN}

    async def test_of_many_calls_by_one_yes_one_is_written(self, desk: Desk) -> None:
        uses = Uses(yes=YES)
        told = await asyncio.gather(
            *(desk.put(f"c{n}", uses) for n in range(20)), return_exceptions=True
        )
        (first,) = [one for one in told if isinstance(one, LogEntry)]
        assert [one.what for one in told if isinstance(one, Changed)] == [{Premise.APPROVAL}] * 19
        assert await desk.ids() == [first.id]
        assert await desk.state_of_yes() == "used"

    @pytest.mark.parametrize(("grants", "most"), [((None,), 7), ((0,), 5), ((0, None), 7), ((), 0)])
    async def test_as_many_calls_are_written_as_a_budget_has(
        self, desk: Desk, grants: tuple[int | None, ...], most: int
    ) -> None:
        await desk.begin(script())
        uses = Uses(script=SCRIPT, grants=grants)
        told = await asyncio.gather(
            *(desk.put(f"c{n}", uses) for n in range(20)), return_exceptions=True
        )
        assert sum(isinstance(one, LogEntry) for one in told) == len(await desk.ids()) == most
        failed = {one.what for one in told if isinstance(one, Changed)}
        assert failed == {frozenset({Premise.BUDGET})}

    async def test_what_is_not_written_uses_nothing_up(self, desk: Desk) -> None:
        await desk.begin(replace(script(), most=1))
        uses = Uses(yes=YES, script=SCRIPT, grants=(None,))
        await desk.behind("UPDATE runs SET version = version + 1")
        assert await desk.failed(uses) == {Premise.RUN}
        await desk.behind("UPDATE runs SET version = version - 1")
        await desk.behind("UPDATE approvals SET state = 'used'")
        assert await desk.failed(uses) == {Premise.APPROVAL}
        assert await desk.failed(uses, yes=None) == {Premise.APPROVAL}
        await desk.behind("UPDATE approvals SET state = 'allowed'")
        await desk.behind("UPDATE scripts SET most = 0")
        assert await desk.failed(uses) == {Premise.BUDGET}
        await desk.behind("UPDATE scripts SET most = 1")
        assert (await desk.put("one", uses)).id == "one"
