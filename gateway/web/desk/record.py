"""The desk's pages of the record: searches, ready-made questions, one record and its proof."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.rows import Row, Rows
from gateway.errors import BadCommand, ConfigError, NotFound, RateLimited
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.paging import SIZE

_PATH = "/desk/record"
_SAID = (
    "server",
    "tool",
    "principal",
    "verdict",
    "code",
    "run",
    "since",
    "until",
    "where",
    "order",
)
"""What a search can say; it all stands in the address."""
_FACETS = {
    "verdict": "verdict",
    "code": "code",
    "server": "server",
    "tool": "target",
    "principal": "principal",
}
"""By the name of the condition, the record's member."""
_MOST_OF_A_FACET = 8
_FEWEST_DRAWN, _PARTS = 3, 48
"""Rows that are drawn over time, and into how many parts."""
_ASKED = ("source", "server", "tool", "principal", "subject", "since", "after")


class RecordPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        route = self._frame.route
        return [
            route("/record", get=self._search),
            route("/record/ask", get=self._ask, post=self._where_went),
            route("/record/exports", get=self._exports),
            route("/record/{id}", get=self._one),
            route("/record/{id}/proof", get=self._proof),
        ]

    async def _search(self, guest: Guest) -> Response:
        """Show the records that the address asks for, and what they have in common."""
        said = {name: guest.query.get(name, "") for name in _SAID}
        if not guest.query:
            said["since"] = "24h"
        asked = {name: told or None for name, told in said.items()}
        problem, rows = "", []
        try:
            rows = await self._frame.ask(
                guest, "audit.query", **asked, after=guest.query.get("after") or None, limit=SIZE
            )
        except BadCommand as refusal:
            problem = refusal.public
        return await self._frame.page(
            guest,
            "record.html",
            room="record",
            rows=[_sentenced(row) for row in rows],
            said=said,
            problem=problem,
            facets=(facets := _facets(rows)),
            completions=_completions(said["where"], facets),
            next=rows[-1]["id"] if len(rows) == SIZE else None,
        )

    async def _one(self, guest: Guest) -> Response:
        """Show one record, with what belongs to it, why it was decided so, and its proof."""
        row, unproven = await self._shown(guest, _id(guest))
        proof = row.pop("proof", None)
        related, again = await self._explained(guest, row.get("decision_id"))
        return await self._frame.page(
            guest,
            "entry.html",
            room="record",
            row=_sentenced(row),
            facts=_facts(row),
            related=[_sentenced(one) for one in related],
            reevaluation=again,
            proof=proof,
            unproven=unproven,
        )

    async def _shown(self, guest: Guest, id_: str) -> tuple[Row, str]:
        """Return a record with its proof; of what is not signed yet, why there is none."""
        try:
            return await self._frame.ask(guest, "audit.show", record=id_, proof=True), ""
        except NotFound as refusal:
            return await self._frame.ask(guest, "audit.show", record=id_), refusal.public

    async def _explained(self, guest: Guest, decision: str | None) -> tuple[Rows, Row | None]:
        """Return every record of a decision, and what its policy says when it is asked again."""
        if not decision:
            return [], None
        try:
            *related, last = await self._frame.ask(guest, "policy.explain", decision=decision)
        except (ConfigError, NotFound, RateLimited) as error:
            return [], {"not asked again": error.public}
        return related, last["reevaluation"]

    async def _proof(self, guest: Guest) -> Response:
        """Give out a record with its proof, as `douane audit show --proof --json` does."""
        shown = await self._frame.ask(guest, "audit.show", record=_id(guest), proof=True)
        return self._frame.file(orjson.dumps(shown) + b"\n", "record.json", "application/json")

    async def _ask(self, guest: Guest) -> Response:
        """Answer one of the ready-made questions, or offer them."""
        return await self._answered(guest, guest.query, {})

    async def _where_went(self, guest: Guest) -> Response:
        """Say in which records a value stands: it comes in a form, and so in no address."""
        return await self._answered(
            guest, {"question": "where-went"}, {"content": guest.form.get("content", "")}
        )

    async def _answered(
        self, guest: Guest, said: Mapping[str, str], more: Mapping[str, Any]
    ) -> Response:
        questions = await self._frame.ask(guest, "audit.questions")
        question, answer, problem = said.get("question", ""), None, ""
        asked = {name: said.get(name) or None for name in _ASKED}
        if question and (question != "where-went" or more):
            try:
                answer = await self._frame.ask(
                    guest, "audit.ask", question=question, **asked, **more
                )
            except BadCommand as refusal:
                problem = refusal.public
        trend, span = _over_time([] if answer is None else answer["rows"])
        return await self._frame.page(
            guest,
            "ask.html",
            trend=trend,
            span=span,
            room="record",
            questions=questions,
            question=question,
            said={name: told or "" for name, told in asked.items()},
            answer=answer,
            columns=[] if answer is None else _columns(answer["rows"]),
            problem=problem,
        )

    async def _exports(self, guest: Guest) -> Response:
        """Show how far everybody has come who gets the record as it grows."""
        rows = await self._frame.ask(guest, "audit.exports")
        return await self._frame.page(guest, "exports.html", room="record", rows=rows)


def _id(guest: Guest) -> str:
    return str(guest.visit.request.path_params["id"])


def _facets(rows: Rows) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return what the records of this page have in common: values, and how many have each."""
    found = {
        name: Counter(str(row[member]) for row in rows if row.get(member))
        for name, member in _FACETS.items()
    }
    return {name: counts.most_common(_MOST_OF_A_FACET) for name, counts in found.items()}


_MEMBERS = (
    "server",
    "target",
    "tool",
    "principal",
    "verdict",
    "code",
    "kind",
    "effect",
    "reasons.code",
)
"""What searches mostly ask for."""


def _completions(where: str, facets: Mapping[str, Sequence[tuple[str, int]]]) -> list[str]:
    """Return conditions that would go on with a search: values of this page, then what can be asked for."""
    begun = f"{where.strip()} and " if where.strip() else ""
    of_page = [
        f'{name} = "{told}"'
        for name, values in facets.items()
        for told, _ in values
        if _PLAIN.fullmatch(told)
    ]
    return [begun + one for one in (*of_page, *(f"{name} = " for name in _MEMBERS))]


_PLAIN = re.compile(r"[A-Za-z0-9 ._:@/-]{1,80}", re.ASCII)

_SENTENCES: Mapping[tuple[str, str], str] = {
    ("intent", ""): "A call was let out",
    ("outcome", "allow"): "A call came back",
    ("outcome", "ask"): "A call was held for a person",
    ("outcome", "deny"): "A call was refused",
    ("outcome", "error"): "A call went wrong",
    ("list", ""): "A list was given out",
    ("approval", ""): "A question to a person",
    ("pin", ""): "A definition",
    ("admin", "allow"): "Somebody with a role acted",
    ("admin", "deny"): "Somebody was refused at an administrator's door",
    ("auth", "allow"): "Somebody came in",
    ("auth", "deny"): "Somebody was not let in",
    ("policy", ""): "The policy",
    ("config", ""): "The configuration",
    ("run", ""): "A run",
    ("token", ""): "A token",
    ("system", ""): "The gateway itself",
    ("gap", ""): "Records that are missing",
}


def _sentenced(row: Row) -> Row:
    """Return a record with a sentence of ours that says what it is."""
    kind, verdict = str(row.get("kind")), str(row.get("verdict") or "")
    told = _SENTENCES.get((kind, verdict)) or _SENTENCES.get((kind, "")) or f"A record of {kind}"
    return {**dict.fromkeys(_SHOWN), **row, "told": told}


_SHOWN = ("verdict", "code", "principal", "server", "target", "method", "reasons")
"""Members that a page shows, which not every record has."""
_APART = frozenset({"id", "time", "kind", "verdict", "code", "reasons", "leaf_index", "leaf_hash"})


def _facts(row: Row) -> list[tuple[str, Any]]:
    """Return what else a record says, as it stands there: what is hashed stays so."""
    return [(name, told) for name, told in row.items() if name not in _APART and told is not None]


def _over_time(rows: Rows) -> tuple[list[int], tuple[str, str]]:
    """Return how many rows fall into each part of the time that they span, and that time."""
    times = sorted(str(row["time"]) for row in rows if row.get("time"))
    if len(times) < _FEWEST_DRAWN:
        return [], ("", "")
    moments = [datetime.fromisoformat(one).timestamp() for one in times]
    whole = max(moments[-1] - moments[0], 1e-6)
    parts = [0] * _PARTS
    for one in moments:
        parts[min(int(_PARTS * (one - moments[0]) / whole), _PARTS - 1)] += 1
    return parts, (times[0], times[-1])


def _columns(rows: Rows) -> list[str]:
    """Return the members that the rows of an answer have, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row if name not in _UNREAD))


_UNREAD = frozenset({"leaf_hash", "record", "leaf_index", "outcome", "question", "id"})
