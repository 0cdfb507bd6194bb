"""A move: from the look at what is there to the moment from which it goes on elsewhere.

Each step can be cut short, and done again: what has come is found there, and what is not there is moved.
Nothing is served from either end between `part` and `serve`, so that nothing is ever recorded twice.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key

from gateway.audit.checkpoint import VerifierKey
from gateway.audit.merkle import leaf_hash
from gateway.domain._value import value
from gateway.domain.secrets import DataKey
from gateway.errors import ConfigError
from gateway.ports import Clock
from gateway.ports.secrets import Sealer
from gateway.storage.moving.mark import Moved, Way, require_serving
from gateway.storage.moving.sides import Contents, Row, Side, Source, Target
from gateway.storage.moving.tables import GROWING, RECORDS, WHOLE, Kept
from gateway.storage.verify import Finding, Verification

_BATCH: Final = 500
_SUM: Final = 1 << 256


@value
class Unlocked:
    """What opens secrets, and the data keys as they are wrapped from now on."""

    sealer: Sealer
    data_keys: tuple[DataKey, ...]


@value
class Terms:
    """What a move needs of whoever asks for it."""

    unlock: Callable[[Sequence[DataKey]], Unlocked]
    tell: Callable[[str, int, int], None]
    """Hears what is being done, how much of it has been, and of how much."""
    clock: Clock
    new_id: Callable[[], str]


@value
class Found:
    """What is moved, or would be."""

    log_id: str
    records: int
    front: int
    root: bytes
    signed: int
    rows: Mapping[str, int]
    """Of each table that has any."""
    resumed: bool
    """Whether the move had begun before."""


class Move:
    """From one place to another; both are open, and held by this process alone."""

    def __init__(self, source: Source, target: Target, terms: Terms) -> None:
        """Look at nothing yet; see `looked` and `made`."""
        self._source = source
        self._target = target
        self._terms = terms

    def looked(self) -> Found:
        """Return what would be moved, once it is found good; nothing is written.

        Raises:
            ConfigError: It cannot be moved, with the reason.

        """
        standing = self._standing()
        self._source.require_whole()
        self._target.require_empty()
        unlocked = self._terms.unlock(self._source.data_keys())
        contents = self._source.contents(unlocked.sealer)
        self._require_same_log(standing, contents)
        verification = self._verified(self._source, contents)
        counts = {
            kept.name: count for kept in WHOLE if (count := sum(1 for _ in self._source.rows(kept)))
        }
        return _found(contents, verification, counts, resumed=standing is not None)

    def made(self) -> Found:
        """Move everything, compare it, and have it go on there.

        Raises:
            ConfigError: It cannot be moved, or what came is not what was: nothing is in force there.

        """
        standing = self._standing()
        self._source.require_whole()
        unlocked = self._terms.unlock(self._source.data_keys())
        contents = self._source.contents(unlocked.sealer)
        self._require_same_log(standing, contents)
        before = self._verified(self._source, contents)
        self._part(standing, contents)
        if self._source.contents(unlocked.sealer) != contents:
            raise ConfigError(f"{self._source.place} has changed meanwhile: begin again")
        self._grow(contents)
        coming = replace(contents, data_keys=unlocked.data_keys)
        self._terms.tell("everything beside the log", 0, 1)
        self._target.keep(coming, self._source.rows, unlocked.sealer)
        self._terms.tell("everything beside the log", 1, 1)
        counts = self._require_same(before, coming, unlocked.sealer)
        self._target.serve()
        return _found(contents, before, counts, resumed=standing is not None)

    def _standing(self) -> Moved | None:
        """Return the move that has begun; `None` if none has.

        Raises:
            ConfigError: One end has to do with another move.

        """
        here, there = self._source.mark(), self._target.mark()
        if there is not None and there.way is Way.GONE:
            require_serving(there, self._target.place)
        if here is not None and (
            here.way is Way.COMING or there is None or there.move != here.move
        ):
            require_serving(here, self._source.place)
        return there

    def _require_same_log(self, standing: Moved | None, contents: Contents) -> None:
        if standing is not None and standing.log_id != contents.log_id:
            raise ConfigError(
                f"what has begun to come into {self._target.place} is the log {standing.log_id}, and in "
                f"{self._source.place} is {contents.log_id}: take another place"
            )

    def _part(self, standing: Moved | None, contents: Contents) -> None:
        """Have neither end serve any more: the target first, which is empty."""
        moved = standing or Moved(
            way=Way.COMING,
            move=self._terms.new_id(),
            log_id=contents.log_id,
            other=self._source.place,
            at=self._terms.clock(),
        )
        self._target.begin(moved)
        if self._source.mark() is None:
            self._source.part(replace(moved, way=Way.GONE, other=self._target.place))

    def _verified(self, side: Side, contents: Contents) -> Verification:
        self._terms.tell(f"comparing the log in {side.place}", 0, 1)
        found = side.verified(_verifier(contents))
        if found.finding is not Finding.OK:
            raise ConfigError(
                f"the log in {side.place} is not what was signed, so nothing goes on from there",
                problems=[found.reason],
            )
        self._terms.tell(f"comparing the log in {side.place}", 1, 1)
        return found

    def _grow(self, contents: Contents) -> None:
        for kept in GROWING:
            newest = self._target.newest(kept)
            if kept is RECORDS and newest is not None and newest >= contents.size:
                raise ConfigError(
                    f"{self._target.place} has more records of this log than {self._source.place}: the "
                    "latter is older than what was moved before; take another place"
                )
            for rows in _batches(self._source.rows(kept, after=newest)):
                self._target.add(kept, _good(rows) if kept is RECORDS else rows)
                if kept is RECORDS:
                    self._terms.tell("records", rows[-1][0] + 1, contents.size)

    def _require_same(
        self, before: Verification, coming: Contents, sealer: Sealer
    ) -> Mapping[str, int]:
        """Return how many rows have come, once all is what it was: read back, leaf by leaf.

        Raises:
            ConfigError: Something is not.

        """
        after = self._verified(self._target, coming)
        wrong = []
        if (after.size, after.front, after.root) != (before.size, before.front, before.root):
            wrong.append("the log: another root")
        counts = {}
        for kept in WHOLE:
            count, here = _sum_of(kept, self._source.rows(kept))
            if (count, here) != _sum_of(kept, self._target.rows(kept)):
                wrong.append(f"{kept.name}: other rows")
            counts.update({kept.name: count} if count else {})
        if self._target.contents(sealer) != coming:
            wrong.append("keys, or what is kept beside the tables")
        if wrong:
            raise ConfigError(
                f"what came to {self._target.place} is not what is in {self._source.place}, so nothing "
                "is in force there: run it again, and see who else writes there",
                problems=wrong,
            )
        return counts


def _batches(rows: Iterator[Row]) -> Iterator[Sequence[Row]]:
    while batch := tuple(islice(rows, _BATCH)):
        yield batch


def _good(rows: Sequence[Row]) -> Sequence[Row]:
    """Return records whose bytes are those of their leaves.

    Raises:
        ConfigError: One has been altered since the log was compared.

    """
    for index, leaf, body in rows:
        if leaf_hash(body) != leaf:
            raise ConfigError(f"record {index} was changed while it was moved")
    return rows


def _sum_of(kept: Kept, rows: Iterator[Row]) -> tuple[int, int]:
    """Return how many rows there are, and what stands for them all, in whatever order they come."""
    count = total = 0
    for count, row in enumerate(rows, 1):
        said = repr((count, *row) if kept.order else row)
        octets = hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
        total = (total + int.from_bytes(octets)) % _SUM
    return count, total


def _verifier(contents: Contents) -> VerifierKey:
    key = load_der_private_key(contents.secrets["audit"], password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError("the key that signs the log is not an Ed25519 key")
    return VerifierKey.of(contents.log_id, key)


def _found(
    contents: Contents, verification: Verification, rows: Mapping[str, int], *, resumed: bool
) -> Found:
    return Found(
        log_id=contents.log_id,
        records=contents.size,
        front=contents.front,
        root=verification.root,
        signed=verification.signed,
        rows=rows,
        resumed=resumed,
    )
