"""The desk's pages of one record: why it was decided so, the policy asked again, and its proof."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.replay import AGAIN
from gateway.admin.rows import Row, Rows
from gateway.errors import ConfigError, NotFound, RateLimited
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.telling import counted, definition, facts, is_a_persons, sentenced, why

_EXPLAIN = "desk-explain"
_HELD = re.compile(r"(.*):(\d+): (.*)", re.DOTALL)
"""A rule that held, as an explanation tells it."""


class EntryPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        route = self._frame.route
        return [
            route("/record/{id}", get=self._one),
            route("/record/{id}/explain", get=self._back, post=self._explain),
            route("/record/{id}/proof", get=self._proof),
        ]

    async def _one(self, guest: Guest) -> Response:
        """Show one record, with what belongs to it, why it was decided so, and its proof.

        Nothing is asked again for it: the rules are those of the policy's own text.
        """
        row, unproven = await self._shown(guest, _id(guest))
        proof = row.pop("proof", None)
        related, placed = await self._told(guest, row)
        names = await self._frame.names(guest, [row])
        decision = str(row.get("decision_id") or "")
        return await self._frame.page(
            guest,
            "entry.html",
            room="record",
            row=sentenced(row, names),
            facts=facts(row),
            reasons=why(row),
            counted=counted(row),
            definition=definition(row) if row.get("kind") == "pin" else None,
            related=[sentenced(one, names) for one in related],
            rules=_of(row, placed),
            in_force=await self._in_force(guest, placed),
            explains=decision if related else "",
            csrf=guest.visit.token(_EXPLAIN, _id(guest), decision),
            proof=proof,
            unproven=unproven,
        )

    async def _back(self, guest: Guest) -> Response:
        """Lead to the record: a policy is asked again by its button alone."""
        return self._frame.go(f"/desk/record/{_id(guest)}")

    async def _explain(self, guest: Guest) -> Response:
        """Put the record's decision to the policy that made it once more, which takes seconds."""
        decision = guest.form.get("decision", "")
        guest.visit.require_token(_EXPLAIN, _id(guest), decision)
        *related, last = await self._frame.ask(guest, "policy.explain", decision=decision)
        again: Row = last["reevaluation"]
        names = await self._frame.names(guest, related)
        row = next((one for one in related if one["id"] == _id(guest)), related[-1])
        return await self._frame.page(
            guest,
            "explain.html",
            room="record",
            row=sentenced(row, names),
            counted=counted(row),
            told=again,
            sentence=AGAIN[again["finding"]],
            said=again.get("places", ()),
            rules=[_rule(told) for told in again.get("rules", ())],
            exact="rules" in again,
            in_force=await self._in_force(guest, again),
        )

    async def _proof(self, guest: Guest) -> Response:
        """Give out a record with its proof, as `douane audit show --proof --json` does."""
        shown = await self._frame.ask(guest, "audit.show", record=_id(guest), proof=True)
        return self._frame.file(orjson.dumps(shown) + b"\n", "record.json", "application/json")

    async def _shown(self, guest: Guest, id_: str) -> tuple[Row, str]:
        """Return a record with its proof; of what is not signed yet, why there is none."""
        try:
            return await self._frame.ask(guest, "audit.show", record=id_, proof=True), ""
        except NotFound as refusal:
            return await self._frame.ask(guest, "audit.show", record=id_), refusal.public

    async def _told(self, guest: Guest, row: Row) -> tuple[Rows, Row]:
        """Return every record of a record's decision, and by which rules it can have come about."""
        decision = row.get("decision_id")
        if not decision:
            return [], {}
        try:
            *related, last = await self._frame.ask(
                guest, "policy.explain", decision=decision, again=False
            )
        except (ConfigError, NotFound, RateLimited):
            return [], {}
        return related, last["reevaluation"]

    async def _in_force(self, guest: Guest, told: Mapping[str, Any]) -> bool:
        """Whether the policy that decided is the one in force."""
        digest = told.get("policy_digest")
        if not digest:
            return False
        status: Row = await self._frame.ask(guest, "policy.status")
        return bool(status["digest"] == digest)


def _id(guest: Guest) -> str:
    return str(guest.visit.request.path_params["id"])


def _of(row: Row, placed: Row) -> Sequence[Row]:
    """Return the rules to tell of a record: of what was let through, or a person refused, there is none."""
    if is_a_persons(row):
        return ()
    return placed.get("rules", ()) if row.get("verdict") in {"deny", "ask"} else ()


def _rule(told: str) -> Row:
    found = _HELD.fullmatch(told)
    if found is None:
        return {"file": told, "line": 0, "rule": ""}
    return {"file": found[1], "line": int(found[2]), "rule": found[3]}
