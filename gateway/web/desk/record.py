"""The desk's searches of the record, and who takes it away."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.rows import Rows
from gateway.errors import BadCommand
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.paging import SIZE
from gateway.web.desk.telling import sentenced

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
"""What a search can say; it all stands in the address, and is called so at the command line."""
_FACETS = {
    "verdict": "verdict",
    "code": "code",
    "server": "server",
    "tool": "target",
    "principal": "principal",
}
"""By the name of the condition, the record's member."""
_MOST_OF_A_FACET = 8


class RecordPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        return [
            self._frame.route("/record", get=self._search),
            self._frame.route("/record/exports", get=self._exports),
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
        names = await self._frame.names(guest, [*rows, said])
        facets = _facets(rows)
        return await self._frame.page(
            guest,
            "record.html",
            room="record",
            rows=[sentenced(row, names) for row in rows],
            names=names,
            said=said,
            problem=problem,
            facets=facets,
            completions=_completions(said["where"], facets),
            next=rows[-1]["id"] if len(rows) == SIZE else None,
        )

    async def _exports(self, guest: Guest) -> Response:
        """Show how far everybody has come who gets the record as it grows."""
        rows = await self._frame.ask(guest, "audit.exports")
        return await self._frame.page(guest, "exports.html", room="record", rows=rows)


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
