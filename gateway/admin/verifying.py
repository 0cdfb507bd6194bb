"""Whether the log is what was signed: computed again, and on record with whoever had it computed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from gateway.admin.archive import Archive
from gateway.admin.journal import Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.audit.cosignature import Witnessed
from gateway.audit.query import Filter, compile_filter
from gateway.errors import AuditUnavailable
from gateway.ports import Clock
from gateway.turns import Line

CODES: Mapping[str, str] = {
    "ok": "log_intact",
    "altered": "log_altered",
    "incomplete": "log_incomplete",
}
"""By the finding, the code of the record that tells of it."""


class Verification(Protocol):
    """What was computed again from the records' bytes."""

    @property
    def finding(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def signed(self) -> int: ...
    @property
    def checkpoints(self) -> int: ...
    @property
    def root(self) -> bytes: ...
    @property
    def first_bad(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def witnessed(self) -> Sequence[Witnessed]: ...
    @property
    def exit_status(self) -> int: ...


LogVerifier = Callable[[Sequence[tuple[str, str]]], Verification]
"""Verifies the whole log against its checkpoints and the given ones: pairs of a name and a note."""


class VerifyDesk:
    """Use cases for auditors and admins: prove that nobody changed the log, and when it was proven."""

    def __init__(
        self, verify: LogVerifier, archive: Archive, journal: Journal, *, clock: Clock
    ) -> None:
        self._verify = verify
        self._archive = archive
        self._journal = journal
        self._clock = clock
        self._line = Line()

    async def verify(self, person: Person, *, checkpoints: Sequence[tuple[str, str]] = ()) -> Row:
        """Compute the whole log again; `checkpoints` are notes kept elsewhere, with their names.

        What came of it is on record then; `recorded` says whether it could be, for a log that
        cannot be written can still be verified. `took_s` is how long it took.

        A large log takes minutes, so there is one at a time: other work needs the threads.

        Raises:
            Forbidden: The person is neither auditor nor admin; so for all of these.
            RateLimited: So many wait for theirs already.

        """
        person.need(Role.AUDITOR, Role.ADMIN)
        row, took = await self._line.take(partial(self._computed, checkpoints))
        recorded = False
        with suppress(AuditUnavailable):
            await self._journal.found(person, "audit.verify", CODES[row["finding"]], _said(row))
            recorded = True
        return {**row, "took_s": took, "recorded": recorded}

    async def _computed(self, checkpoints: Sequence[tuple[str, str]]) -> tuple[Row, float]:
        """Return what was proven, and in how many seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        row = verification_row(await asyncio.to_thread(self._verify, checkpoints))
        return row, round(loop.time() - began, 1)

    async def verified(self, person: Person) -> Row | None:
        """Return what came of the newest verification on record, when, and who asked; `None` for none.

        One at the command line is not on record: it needs no running gateway.
        """
        person.need(Role.AUDITOR, Role.ADMIN)
        found = [one for code in CODES.values() for one in await self._newest(code)]
        if not found:
            return None
        newest = max(found, key=lambda record: record["leaf_index"])
        return {
            "ok": newest["code"] == CODES["ok"],
            "time": newest["time"],
            "by": newest.get("principal"),
            "said": newest["reasons"][0]["message"],
            "record": newest["id"],
        }

    async def _newest(self, code: str) -> Rows:
        asked = Filter(code=code, limit=1)
        return await self._archive.page(compile_filter(asked, now=self._clock()))


def verification_row(found: Verification) -> Row:
    """Return what was proven: `ok`, and where the log is not what was signed, from which record."""
    return {
        "ok": found.exit_status == 0,
        "finding": str(found.finding),
        "records": found.size,
        "signed": found.signed,
        "checkpoints": found.checkpoints,
        "root": found.root.hex(),
        "first_bad": found.first_bad,
        "reason": found.reason,
        "witnessed": witnessed_rows(found.witnessed),
    }


def witnessed_rows(witnessed: Sequence[Witnessed]) -> Rows:
    """Return who has cosigned how much of a log, and when."""
    return [{"witness": one.name, "time": rfc3339(one.time), "size": one.size} for one in witnessed]


def _said(row: Row) -> str:
    told = f"{row['records']} records, {row['signed']} signed, {row['checkpoints']} checkpoints compared"
    return told if row["ok"] else f"{row['reason']}; good: {told}"
