"""What principals choose to see in front of all servers: in a database, read from memory."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from gateway.domain.selection import Choice, Choices, Selection
from gateway.domain.tools import UpstreamId
from gateway.storage.state import EVERY, StateWriter, Tables

MOST_KEPT = 32
"""Choices of one principal; a conversation that began before them sees what the oldest says."""
MOST_PRINCIPALS = 10_000
"""Beyond them, whose newest choice is the oldest is forgotten, and sees all that policy shows."""

_COLUMNS = "principal, number, names, but, runs, session"
_ALL = f"SELECT {_COLUMNS} FROM server_choices ORDER BY made"  # noqa: S608 - fixed text
_OF = f"SELECT {_COLUMNS} FROM server_choices WHERE principal = ? ORDER BY made"  # noqa: S608
_STORE = f"INSERT INTO server_choices ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_TRIM = "DELETE FROM server_choices WHERE principal = ? AND number < ?"
_FORGET = (
    "DELETE FROM server_choices WHERE principal IN (SELECT principal FROM server_choices"  # noqa: S608
    f" GROUP BY principal ORDER BY max(made) DESC LIMIT {EVERY} OFFSET ?) RETURNING principal"
)

_NOTHING = Choices()
_Changed = tuple[str, Choices, frozenset[str]]
"""Whose choices were written, what they are, and whose were forgotten."""


class DurableChoices:
    """A `ChoiceStore`. Memory holds what is committed, and nothing else."""

    kept_in = ("server_choices",)

    def __init__(
        self, writer: StateWriter, tables: Tables, *, principals: int = MOST_PRINCIPALS
    ) -> None:
        """Load every choice through `tables`, which are not needed afterwards."""
        self._writer = writer
        self._principals = principals
        self._made: dict[str, Choices] = {}
        self.look(tables, None)()

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Show what principals have chosen elsewhere; see `Remembering`."""
        if keys is None:
            return partial(self._take_in, None, self._all(tables))
        found = {key: _choices(tables.execute(_OF, (key,))) for key in sorted(keys)}
        return partial(self._take_in, frozenset(keys), found)

    def of(self, principal: str) -> Choices:
        return self._made.get(principal, _NOTHING)

    async def choose(
        self,
        principal: str,
        change: Callable[[Choices], Selection],
        *,
        runs: frozenset[str],
        session: str = "",
    ) -> Selection:
        """Make the next choice, durable on return; see `ChoiceStore`."""
        job = partial(self._write, principal, change, runs, session)
        _, choices, _ = await self._writer.run(job, committed=self._remember)
        return choices.newest

    def _write(
        self,
        principal: str,
        change: Callable[[Choices], Selection],
        runs: frozenset[str],
        session: str,
        tables: Tables,
    ) -> _Changed:
        before = _choices(tables.execute(_OF, (principal,)))
        after = before.followed_by(change(before), runs, session, most=MOST_KEPT)
        choice = after.made[-1]
        names, live = json.dumps(sorted(choice.selection.names)), json.dumps(sorted(choice.runs))
        row = (principal, choice.number, names, choice.selection.but, live, session)
        tables.execute(_STORE, row)
        tables.execute(_TRIM, (principal, after.made[0].number))
        gone = tables.execute(_FORGET, (self._principals,)).fetchall()
        return principal, after, frozenset(name for (name,) in gone)

    def _all(self, tables: Tables) -> Mapping[str, Choices]:
        rows: dict[str, list[tuple[object, ...]]] = {}
        for row in tables.execute(_ALL):
            rows.setdefault(row[0], []).append(row)
        return {principal: _choices(found) for principal, found in rows.items()}

    def _take_in(self, keys: Collection[str] | None, found: Mapping[str, Choices]) -> None:
        for principal in list(self._made) if keys is None else keys:
            self._made.pop(principal, None)
        self._made.update((principal, one) for principal, one in found.items() if one.made)

    def _remember(self, changed: _Changed) -> None:
        principal, choices, gone = changed
        self._made[principal] = choices
        for name in gone:
            self._made.pop(name, None)


def _choices(rows: Iterable[tuple[object, ...]]) -> Choices:
    return Choices(made=tuple(_choice(*row) for row in rows))


def _choice(
    _: object, number: object, names: object, but: object, runs: object, session: object
) -> Choice:
    chosen = frozenset(UpstreamId(name) for name in json.loads(str(names)))
    return Choice(
        number=int(str(number)),
        selection=Selection(names=chosen, but=bool(but)),
        runs=frozenset(json.loads(str(runs))),
        session=str(session),
    )
