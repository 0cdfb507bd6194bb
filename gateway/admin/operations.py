"""What people look at: runs, servers and keys."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from gateway.admin.person import EVERY_ROLE, Person
from gateway.admin.rows import Row, Rows
from gateway.domain.flow import Run, RunId
from gateway.domain.tools import PinStatus
from gateway.errors import NotFound
from gateway.ports import PinStore


class RunReader(Protocol):
    """Runs as they are in memory."""

    def all(self) -> Sequence[Run]:
        """Return every run, oldest first."""
        ...

    def find(self, run: RunId) -> Run | None: ...


ServerStatus = Callable[[], Sequence[Mapping[str, Any]]]
"""One row a configured server: `server`, `url`, `status`, `profiles`, `checked_at`, `error`."""

KeyList = Callable[[], Sequence[Mapping[str, Any]]]
"""One row a key: `use`, `id`, `public`; never a private half."""


class RunDesk:
    def __init__(self, runs: RunReader) -> None:
        self._runs = runs

    async def list(self, person: Person, *, limit: int = 100) -> Rows:
        """Return one row a run, newest first: its label, and how many results it has seen."""
        person.need(*EVERY_ROLE)
        return [
            {"run": run.id, **run.label.words, "sources": len(run.sources)}
            for run in islice(reversed(self._runs.all()), limit)
        ]

    async def show(self, person: Person, *, run: str) -> Row:
        """Return a run with every result that its label comes from.

        Raises:
            NotFound: There is no such run.

        """
        person.need(*EVERY_ROLE)
        found = self._runs.find(RunId(run))
        if found is None:
            raise NotFound("no such run; `douane runs list` lists them")
        sources = [
            {
                "server": source.server,
                "tool": source.tool,
                "record": source.record,
                **source.label.words,
            }
            for source in found.sources
        ]
        return {"run": found.id, **found.label.words, "sources": sources}


class ServerDesk:
    def __init__(self, status: ServerStatus, pins: PinStore) -> None:
        self._status = status
        self._pins = pins

    async def list(self, person: Person) -> Rows:
        """Return one row a configured server, with how many of its pins are in which status."""
        person.need(*EVERY_ROLE)
        return [{**row, "pins": self._counts(row["server"])} for row in self._status()]

    def _counts(self, server: Any) -> dict[str, int]:
        found = [pin.status for pin in self._pins.all(server)]
        return {status.value: found.count(status) for status in PinStatus}


class KeyDesk:
    def __init__(self, keys: KeyList) -> None:
        self._keys = keys

    async def list(self, person: Person) -> Rows:
        """Return the public halves of the keys that sign tokens, the log and lock files."""
        person.need(*EVERY_ROLE)
        return [dict(row) for row in self._keys()]
