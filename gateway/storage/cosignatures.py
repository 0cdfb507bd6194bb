"""Cosignatures beside the checkpoints that they are of, and what witnesses are shown for them."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from gateway.ports.following import NotDelivered
from gateway.storage.connection import Readable, columns_in
from gateway.storage.reader import LogReader
from gateway.storage.state import StateWriter, Tables
from gateway.storage.tree import Pruned

_NO_SIZE = (1 << 63) - 1


class DurableCosignatures:
    """What a follower needs who asks a witness: the newest checkpoint, proofs, and a place."""

    def __init__(
        self, writer: StateWriter, reading: Callable[[], AbstractContextManager[LogReader]]
    ) -> None:
        """Keep by `writer` what is proven from the log; `reading` opens that for one look.

        It raises `AuditUnavailable` where it cannot be read.
        """
        self._writer = writer
        self._reading = reading

    async def head(self) -> tuple[int, str] | None:
        """Return size and note of the newest checkpoint.

        Raises:
            AuditUnavailable: The log cannot be read now.

        """

        def read() -> tuple[int, str] | None:
            with self._reading() as reader:
                return reader.checkpoint()

        return await asyncio.to_thread(read)

    async def growth(self, old: int, new: int) -> Sequence[bytes]:
        """Return the proof that the first `new` records begin with the first `old` ones.

        Nothing is to be proven where `old` is 0.

        Raises:
            AuditUnavailable: The log cannot be read now.
            NotDelivered: What the proof needs has left it.

        """

        def read() -> Sequence[bytes]:
            with self._reading() as reader:
                try:
                    return reader.consistency(old, new) if old else ()
                except Pruned as error:
                    raise NotDelivered(
                        f"it has cosigned {old} records last, and retention has removed what shows "
                        "the growth from there; take it out of the configuration, forget it "
                        "(`douane audit exports --forget`), and name another witness"
                    ) from error

        return await asyncio.to_thread(read)

    async def last(self, witness: str) -> int:
        """Return the largest size that a witness, by its id, has cosigned; 0 is none."""

        def job(tables: Tables) -> int:
            (size,) = tables.execute(
                "SELECT coalesce(max(size), 0) FROM cosignatures WHERE witness = ?", (witness,)
            ).fetchone()
            return int(size)

        return await self._writer.run(job)

    async def keep(self, witness: str, size: int, line: str) -> None:
        """Keep what a witness has said of the checkpoint of `size`; durable on return."""

        def job(tables: Tables) -> None:
            tables.execute(
                "INSERT INTO cosignatures (size, witness, line) VALUES (?, ?, ?)"
                " ON CONFLICT (size, witness) DO UPDATE SET line = excluded.line",
                (size, witness, line),
            )

        await self._writer.run(job)


def cosignatures(connection: Readable, size: int | None = None) -> dict[int, str]:
    """Return the lines of all who have cosigned a checkpoint, or that of `size`, by its size."""
    found: dict[int, str] = {}
    if not columns_in(connection, "cosignatures"):
        return found  # a log from before there were witnesses
    part = (0, _NO_SIZE) if size is None else (size, size)
    for of, line in connection.execute(
        "SELECT size, line FROM cosignatures WHERE size BETWEEN ? AND ? ORDER BY size, witness",
        part,
    ):
        found[of] = found.get(of, "") + line
    return found


def newest_cosigned(connection: Readable, size: int) -> Sequence[tuple[int, str]]:
    """Return the newest checkpoint of each witness among those of `size` at most, in order."""
    return connection.execute(
        "SELECT size, note FROM checkpoints WHERE size IN"
        " (SELECT max(size) FROM cosignatures WHERE size <= ? GROUP BY witness) ORDER BY size",
        (size,),
    ).fetchall()
