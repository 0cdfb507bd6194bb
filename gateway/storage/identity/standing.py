"""Answers that stand, beside the grants whose revocation ends them; what they say is sealed.

The tables' own triggers end them, so that no way to revoke leaves one standing.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from gateway.domain.approvals import ApprovalId
from gateway.domain.document import Digest
from gateway.domain.labels import Confidentiality
from gateway.domain.standing import MOST_OF_ALL, MOST_OF_ONE, StandingAnswer
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.errors import IdentityUnavailable, RateLimited, Unsealable
from gateway.ports.secrets import Sealer
from gateway.storage.identity.remembered import Row
from gateway.storage.identity.statements import IdentityDatabase, Statements

_COLUMNS = "id, user_id, client_id, given_at, expires_at, sealed"
_STORE = f"INSERT INTO standing_answers ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - fixed text
_END = "UPDATE standing_answers SET ended = ? WHERE id = ? AND ended = ''"
_END_OF = "UPDATE standing_answers SET ended = ? WHERE ended = '' AND user_id = ? AND client_id = ?"
_FORGET = "DELETE FROM standing_answers WHERE id = ? AND ended <> ''"
_STANDS = f"SELECT {_COLUMNS} FROM standing_answers WHERE ended = ''"  # noqa: S608
_ENDED = f"SELECT {_COLUMNS}, ended FROM standing_answers WHERE ended <> ''"  # noqa: S608
RENEWED = "another answer stands in its place"


class StandingAnswerTable:
    """A `StandingAnswers`. Memory holds what stands in the database, and nothing else."""

    def __init__(self, database: IdentityDatabase, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._rows: Mapping[str, Row] = {}
        self._answers: dict[str, StandingAnswer] = {}
        self._of: Mapping[str, tuple[StandingAnswer, ...]] = {}
        database.remembers(self._load, ours=True)

    def of(self, principal: str) -> Sequence[StandingAnswer]:
        return self._of.get(principal, ())

    def all(self) -> Sequence[StandingAnswer]:
        """Return what stands, oldest first."""
        return sorted(self._answers.values(), key=lambda one: (one.given_at, one.id))

    def get(self, id_: ApprovalId) -> StandingAnswer | None:
        return self._answers.get(id_)

    async def give(self, answer: StandingAnswer) -> None:
        """Have `answer` stand; see `StandingAnswers`."""
        row = (
            answer.id,
            answer.user_id,
            answer.client_id,
            answer.given_at,
            answer.expires_at,
            self._sealer.seal(_spelled(answer), _place(answer.id)),
        )

        def job(connection: Statements) -> None:
            # Of the database, not of memory: another process may have had more of them stand since.
            before = superseded(self._read(_standing(connection)).values(), answer)
            connection.executemany(_END, [(RENEWED, id_) for id_ in before])
            connection.execute(_STORE, row)

        await asyncio.to_thread(self._database.write, job)

    async def end(self, id_: ApprovalId, because: str) -> bool:
        """Have it stand no more; see `StandingAnswers`."""

        def job(connection: Statements) -> bool:
            return connection.execute(_END, (because, id_)).rowcount == 1

        return await asyncio.to_thread(self._database.write, job)

    async def ended(self) -> Sequence[tuple[StandingAnswer, str]]:
        """Return what ended by itself; see `StandingAnswers`."""
        rows = await asyncio.to_thread(
            self._database.read, lambda connection: connection.execute(_ENDED).fetchall()
        )
        found = ((self._opened(row[:-1]), row[-1]) for row in rows)
        return [(answer, because) for answer, because in found if answer is not None]

    async def forget(self, ids: Sequence[ApprovalId]) -> None:
        """Forget what ended; see `StandingAnswers`."""

        def job(connection: Statements) -> None:
            connection.executemany(_FORGET, [(id_,) for id_ in ids])

        await asyncio.to_thread(self._database.write, job)

    def _load(self, connection: Statements) -> None:
        """Hold what stands now. Where that cannot be read, nothing does."""
        try:
            rows = _standing(connection)
        except IdentityUnavailable:
            rows = {}
        if rows == self._rows:
            return
        self._answers = self._read(rows)
        self._rows = {id_: rows[id_] for id_ in self._answers}
        self._of = by_principal(self._answers.values())

    def _read(self, rows: Mapping[str, Row]) -> dict[str, StandingAnswer]:
        """Return what rows say, opening only what memory does not hold."""
        found = {
            id_: self._answers[id_] if self._rows.get(id_) == row else self._opened(row)
            for id_, row in rows.items()
        }
        return {id_: answer for id_, answer in found.items() if answer is not None}

    def _opened(self, row: Row) -> StandingAnswer | None:
        """Return what a row says; `None` where it says nothing that we sealed for it."""
        id_, user_id, client_id, given_at, expires_at, sealed = row
        try:
            said = json.loads(self._sealer.open(sealed, _place(id_)))
        except Unsealable:
            return None
        server, kind, name = said["target"]
        return StandingAnswer(
            **{
                **said,
                "id": ApprovalId(id_),
                "target": Target(server=UpstreamId(server), kind=Kind(kind), name=name),
                "pin_digest": Digest.read(said["pin_digest"]),
                "confidentiality": Confidentiality(said["confidentiality"]),
                "places": frozenset((path, text) for path, text in said["places"]),
            },
            user_id=user_id,
            client_id=client_id,
            given_at=given_at,
            expires_at=expires_at,
        )


def end_answers(connection: Statements, user_id: str, client_id: str, because: str) -> int:
    """Have none stand that was given to calls of this person by this client; return how many did."""
    return connection.execute(_END_OF, (because, user_id, client_id)).rowcount


def by_principal(answers: Iterable[StandingAnswer]) -> Mapping[str, tuple[StandingAnswer, ...]]:
    """Return the answers of each principal."""
    found: dict[str, tuple[StandingAnswer, ...]] = {}
    for one in answers:
        found[one.principal] = (*found.get(one.principal, ()), one)
    return found


def superseded(
    standing: Collection[StandingAnswer], answer: StandingAnswer
) -> Sequence[ApprovalId]:
    """Return those of `standing` in whose place `answer` may stand.

    Raises:
        RateLimited: So many others stand already.

    """
    mine = [one for one in standing if one.person == answer.person]
    alike = (one for one in mine if one.principal == answer.principal)
    before = [one.id for one in alike if _says_the_same(one, answer)]
    of_one, of_all = len(mine) - len(before), len(standing) - len(before)
    if of_one >= MOST_OF_ONE or of_all >= MOST_OF_ALL:
        raise RateLimited(
            "too many answers stand already; end some of them, or write a rule",
            detail=f"{of_one} stand for {answer.person}, {of_all} in all",
        )
    return before


def _standing(connection: Statements) -> Mapping[str, Row]:
    return {row[0]: row for row in connection.execute(_STANDS)}


def _says_the_same(one: StandingAnswer, other: StandingAnswer) -> bool:
    return (one.target, one.places) == (other.target, other.places)


def _place(id_: str) -> str:
    return f"standing_answers:{id_}"


def _spelled(answer: StandingAnswer) -> bytes:
    content = {
        "principal": answer.principal,
        "subject": answer.subject,
        "client_name": answer.client_name,
        "target": [answer.target.server, answer.target.kind.value, answer.target.name],
        "pin_digest": str(answer.pin_digest),
        "confidentiality": int(answer.confidentiality),
        "places": sorted(answer.places),
        "by": answer.by,
        "by_user_id": answer.by_user_id,
        "note": answer.note,
    }
    return json.dumps(content).encode()
