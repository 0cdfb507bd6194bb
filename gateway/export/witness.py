"""Has a witness cosign the log's checkpoints, so that nobody can show it another history (C2SP)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

from gateway.audit.checkpoint import BadCheckpoint
from gateway.audit.cosignature import (
    MEDIA_OF_SIZE,
    Cosignature,
    WitnessKey,
    add_checkpoint,
    cosignature_in,
    size_in,
)
from gateway.domain._value import value
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.export.collector import Answer, Poster
from gateway.export.waiting import retry_after_s
from gateway.ports import Clock
from gateway.ports.following import NotDelivered, StoredRecord

logger = logging.getLogger(__name__)

DISAGREES: Final = "witness_disagrees"
"""The code of the record that says so."""

_OK, _CONFLICT, _UNPROVEN = 200, 409, 422
_TOLD = {
    400: "it calls the request malformed (400)",
    403: "it does not take the log's signature (403); give its operator the audit key that "
    "`douane keys list --wide` shows",
    404: "it does not know this log (404); give its operator the audit key that "
    "`douane keys list --wide` shows",
}
_MEDIA: Final = {"content-type": "text/plain; charset=utf-8", "accept": "*/*"}

Alarm = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Puts on record that a witness disagrees: a sentence, evidence. May raise AuditUnavailable."""


class Shown(Protocol):
    """What the log can show a witness, and what it keeps of it."""

    async def head(self) -> tuple[int, str] | None: ...
    async def growth(self, old: int, new: int) -> Sequence[bytes]: ...
    async def last(self, witness: str) -> int: ...
    async def keep(self, witness: str, size: int, line: str) -> None: ...


@value
class Witness:
    """Who is asked to cosign."""

    name: str
    """In the configuration."""
    url: str
    """Its submission prefix."""
    key: WitnessKey
    every_s: float
    """It is not asked sooner after a cosignature."""


class WitnessSink:
    """A `Sink` of checkpoints that asks for the newest one's cosignature, whichever it is given.

    What a witness answers is kept only where it is a cosignature by the key that was configured.
    A witness that has seen another history than the log's own is told of, on record, once each
    time that begins; the follower goes on asking.
    """

    def __init__(
        self,
        witness: Witness,
        *,
        poster: Poster,
        shown: Shown,
        alarm: Alarm,
        clock: Clock = time.time,
        elapsed: Clock = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._witness = witness
        self._url = f"{witness.url.rstrip('/')}/add-checkpoint"
        self._poster = poster
        self._shown = shown
        self._alarm = alarm
        self._clock = clock
        self._elapsed = elapsed
        self._pause = pause
        self._not_before: float | None = None
        self._done = -1
        self._alarmed: set[bool] = set()
        """Of which kind: the log is too short, or another."""

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Return once a checkpoint that covers all of `records` is cosigned, and that is kept.

        Raises:
            NotDelivered: It is not.
            AuditUnavailable: The log cannot be read, or not keep what was answered.

        """
        if records[-1].leaf_index <= self._done:
            return
        if self._not_before is not None:
            await self._pause(max(self._not_before - self._elapsed(), 0.0))
        head = await self._shown.head()
        if head is None:
            raise NotDelivered("the log has no checkpoint; run `douane audit verify`")
        size, note = head
        key = self._witness.key
        cosignature = await self._cosignature(await self._shown.last(key.id), size, note)
        await self._shown.keep(key.id, size, cosignature.line)
        self._done = size - 1
        self._alarmed.clear()
        self._not_before = self._elapsed() + self._witness.every_s

    async def _cosignature(self, old: int, size: int, note: str) -> Cosignature:
        if old > size:
            await self._disagrees(_CONFLICT, old, size)
        answer = await self._asked(old, size, note)
        if answer.status == _CONFLICT and not _other_root(answer, old, size):
            old = _size_told(answer)
            if old > size:
                await self._disagrees(_CONFLICT, old, size)
            answer = await self._asked(old, size, note)
        if old and (answer.status == _UNPROVEN or _other_root(answer, old, size)):
            await self._disagrees(answer.status, old, size)
        if answer.status != _OK:
            told = _TOLD.get(answer.status, f"it answers with status {answer.status}")
            raise NotDelivered(told, retry_after_s=retry_after_s(answer.headers, self._clock()))
        return self._taken(answer.body, note)

    async def _asked(self, old: int, size: int, note: str) -> Answer:
        body = add_checkpoint(old, await self._shown.growth(old, size), note)
        try:
            return await self._poster.upload(self._url, body, headers=_MEDIA)
        except (EgressRefused, UpstreamFailed) as error:
            raise NotDelivered(error.detail or error.public) from error

    def _taken(self, body: bytes, note: str) -> Cosignature:
        text = note.rpartition("\n\n")[0] + "\n"
        try:
            found = cosignature_in(body.decode(), text, self._witness.key)
        except (BadCheckpoint, UnicodeDecodeError) as error:
            raise NotDelivered(f"its answer is no cosignature: {error}") from error
        if found is None:
            raise NotDelivered(f"its answer has no cosignature of the key {self._witness.key.id}")
        return found

    async def _disagrees(self, status: int, old: int, size: int) -> NoReturn:
        name = self._witness.name
        told = (
            f"witness {name} has cosigned {old} records of this log, which has {size}: it was cut "
            "off or put back, or another history is signed with its key"
            if old > size
            else f"witness {name} does not see the first {old} records, which it has cosigned, in "
            f"this log of {size}: another history is signed with its key"
        )
        if (old > size) not in self._alarmed:
            evidence = {
                "witness": name,
                "key": self._witness.key.id,
                "status": status,
                "cosigned": old,
                "size": size,
            }
            await self._alarm(told, evidence)
            self._alarmed.add(old > size)
            logger.error("%s", told)
        raise NotDelivered(told)


def _other_root(answer: Answer, old: int, size: int) -> bool:
    """Say whether the witness has cosigned just as many records, but others (C2SP tlog-witness)."""
    return answer.status == _CONFLICT and old == size and _size(answer) in {None, size}


def _size_told(answer: Answer) -> int:
    size = _size(answer)
    if size is None:
        raise NotDelivered("it answers with status 409 and does not say which size it has cosigned")
    return size


def _size(answer: Answer) -> int | None:
    media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return size_in(answer.body) if media == MEDIA_OF_SIZE else None
