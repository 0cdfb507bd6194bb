"""What many gateways use up together: calls by the minute, attempts to guess, proofs of possession."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg

from gateway.domain.bounded import digest_of
from gateway.domain.identity import Proof
from gateway.domain.quotas import Charge
from gateway.errors import AuditUnavailable, IdentityUnavailable
from gateway.ports.allowance import Use, Used
from gateway.ports.buckets import Portion
from gateway.storage.postgres.connection import Connection, Session

_PATIENCE_S: Final = 5.0
_USE: Final = "SELECT use_proof_1(%s, %s, %s, %s)"
_COUNT: Final = (
    "SELECT * FROM count_1(%s, %s::text[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[])"
)
_KEPT: Final = "SELECT quota, under, begins, used FROM quota_counts WHERE replica = ''"
_MARGIN_S: Final = 60.0
"""A request may take so long from where its proof is read to where its use is noted."""

Rows = list[tuple[Any, ...]]


class PostgresAllowance:
    """`Portions`, a `SharedThrottle`, `UsedProofs` and `SharedCounts`, each on a connection of its own.

    Portions and proofs are kept in memory of the server alone. Whoever makes that forget, by a crash or
    a failover, gains nothing: a bucket that is not known is empty from then on and fills, and no proof
    is good that was made before. Attempts and counts are on the disk.
    """

    def __init__(self, conninfo: str, *, replica: str) -> None:
        """Connect at first use. `replica` names this process, and is what its board is told."""
        self._replica = replica
        self._calls, self._proofs, self._attempts, self._counts = (
            Session(conninfo, application=f"douane {what}", patience_s=_PATIENCE_S)
            for what in ("portions", "proofs", "attempts", "quotas")
        )

    async def take(
        self, key: bytes, *, size: float, in_s: float, wanted: float, unused: float
    ) -> Portion:
        """Take up to so many calls; see `Portions`."""
        try:
            ((taken, level),) = await asyncio.to_thread(
                _asked,
                self._calls,
                "SELECT * FROM take_1(%s, %s, %s, %s, %s)",
                (key, size, in_s, wanted, unused),
            )
        except psycopg.Error as error:
            told = "how many calls are left cannot be told now; nothing was called"
            raise AuditUnavailable(told, detail=str(error)) from error
        return Portion(taken=taken, level=level)

    async def note(self, of: Sequence[tuple[str, int]], *, window_s: float) -> int:
        """Count an attempt; see `SharedThrottle`."""
        names = [digest_of(name) for name, _ in of]
        statement = "SELECT attempt_1(%s::bytea[], %s::integer[], %s)"
        values = (names, [allowed for _, allowed in of], window_s)
        ((wait_s,),) = await asyncio.to_thread(self._attempted, statement, values)
        return int(wait_s)

    async def forgive(self, keys: Sequence[str]) -> None:
        """Take an attempt back; see `SharedThrottle`."""
        names = [digest_of(name) for name in keys]
        await asyncio.to_thread(self._attempted, "SELECT forgive_1(%s::bytea[])", (names,))

    def use(self, proof: Proof, *, now: float) -> None:
        """Note the use of `proof`; see `UsedProofs`."""
        values = (proof.use, proof.made_at, proof.until + _MARGIN_S, now)
        with _known():
            ((problem,),) = _asked(self._proofs, _USE, values)
        if problem is not None:
            raise ValueError(problem)

    async def claim(self, what: str, now: float, until: float) -> bool:
        """Claim `what` until then, and for some time more; false if another one has, or nobody knows.

        It is used up as a proof is: by whoever is first.

        Raises:
            AuditUnavailable: It cannot be told whose it is.

        """
        values = (digest_of("claim", what), now, until, now)
        try:
            ((problem,),) = await asyncio.to_thread(_asked, self._proofs, _USE, values)
        except psycopg.Error as error:
            told = "which gateway is to record this cannot be told now"
            raise AuditUnavailable(told, detail=str(error)) from error
        return problem is None

    async def add(self, uses: Sequence[Use]) -> Sequence[Used]:
        """Add to counts; see `SharedCounts`. What it said is right, although more may be used by now."""
        if not uses:
            return []
        names = [json.dumps(one.under).encode() for one in uses]
        rest = zip(*((one.begin, one.amount, one.most) for one in uses), strict=True)
        values = (self._replica, [one.quota for one in uses], names, *map(list, rest))
        try:
            rows = await asyncio.to_thread(_asked, self._counts, _COUNT, values)
        except psycopg.Error as error:
            told = "how much is left of a quota cannot be told now; nothing was called"
            raise AuditUnavailable(told, detail=str(error)) from error
        found = {place: Used(used=used, fits=fits) for place, used, fits in rows}
        return [found[place] for place in range(1, len(uses) + 1)]

    def kept(self) -> Sequence[Charge]:
        """Return what is used of each count, in the newest span that it was used in.

        Raises:
            IdentityUnavailable: It cannot be read now.

        """
        with _known():
            rows = _asked(self._counts, _KEPT, ())
        return [
            Charge(quota=quota, under=tuple(json.loads(under)), begin=begin, amount=used)
            for quota, under, begin, used in rows
        ]

    def forget(self, *, now: float) -> None:
        """Forget what counts no more: whoever leads does so from time to time.

        Raises:
            IdentityUnavailable: It cannot be done now.

        """
        self._attempted("SELECT forget_1(%s)", (now,))

    def close(self) -> None:
        for session in (self._calls, self._proofs, self._attempts, self._counts):
            session.close()

    def _attempted(self, statement: LiteralString, values: tuple[Any, ...]) -> Rows:
        with _known():
            return _asked(self._attempts, statement, values)


def _asked(session: Session, statement: LiteralString, values: tuple[Any, ...]) -> Rows:
    def job(connection: Connection) -> Rows:
        return connection.execute(statement, values).fetchall()

    return session.use(job)


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        told = "sign-in is not available at the moment"
        raise IdentityUnavailable(told, detail=str(error)) from error
