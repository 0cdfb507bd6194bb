"""How records are written from now on: what of them by which level, and hashed with which key."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from gateway.audit.hashing import hashes_of
from gateway.audit.record import RecordEncoder
from gateway.audit.redaction import Levels
from gateway.flow.redaction import RecordScreen
from gateway.turns import Line


class RecordHashKeys(Protocol):
    """The keys of the hash in records, oldest first; see `RecordKeys`."""

    @property
    def all(self) -> tuple[bytes, ...]: ...
    def add(self) -> tuple[bytes, ...]: ...


class Encoding:
    """What a log that is open has in common, wherever it lies."""

    def __init__(self, encoder: RecordEncoder, keys: RecordHashKeys) -> None:
        self._encoder = encoder
        self._keys = keys
        self._rotating = Line()

    def record_by(self, levels: Levels, held: Iterable[str]) -> None:
        """Write every further record by these levels, and without these secrets."""
        screen = RecordScreen(held)
        self._encoder.keep_to(replace(self._encoder.terms, levels=levels, screen=screen))

    async def rotate_record_hash(self) -> int:
        """Hash with a new key from now on, and return its number. The older ones are kept."""
        return await self._rotating.take(self._with_new_key)

    async def _with_new_key(self) -> int:
        keys = await asyncio.to_thread(self._keys.add)
        self._encoder.keep_to(replace(self._encoder.terms, keys=keys))
        return len(keys)

    @property
    def record_hash_keys(self) -> int:
        """How many keys of the hash in records there are; the last one is in use."""
        return len(self._keys.all)

    def hashes_of(self, content: Any) -> Sequence[str]:
        """Return what may stand in records for a JSON value, or for bytes, newest key first."""
        return hashes_of(self._keys.all, content)
