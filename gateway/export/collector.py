"""Sends records over HTTP to whoever collects them: a SIEM, an OpenTelemetry collector."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from gateway.audit.forms import Stored, Written
from gateway.domain._value import value
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.export.waiting import retry_after_s
from gateway.ports import Clock
from gateway.ports.following import NotDelivered, Refused, StoredRecord

logger = logging.getLogger(__name__)

_OK = range(200, 300)
_REFUSED = frozenset({400, 413, 422})
"""Answers that are about what was sent, not about who sends it or when."""
_LONGEST_TOLD = 300
_SHORTEST_SECRET = 8
"""Characters; to take out what is shorter would take ordinary words out of an answer."""
_LARGEST_SENT_BYTES = 1 << 20
"""Of records at once, before they are put into a form, which may be several times as long."""

_REJECTED = ("rejectedLogRecords", "rejectedSpans")


class Answer(Protocol):
    """What a collector answers."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


class Poster(Protocol):
    """The way out to collectors."""

    async def upload(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """Send `body` once, and return the answer, whatever its status.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No whole answer in time.

        """
        ...


@value
class Collector:
    """Where records are sent, and what says who we are."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> Sequence[str]:
        """What of the headers nobody is to be shown, longest first: whole, and without a scheme."""
        values = self.headers.values()
        parts = {part for one in values for part in (one, one.rpartition(" ")[2])}
        return sorted((one for one in parts if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)


class CollectorSink:
    """A `Sink` that sends each batch once it is the next, and waits where it is not taken.

    Whatever the refusal, nothing is left out: a collector that refuses for good holds its own
    export up, and /readyz says so. What it refuses of a batch is found by halving it, and is sent
    alone from then on, until it is taken or passed over by a person. One that takes a batch in part
    has said that it is not to be sent again (OTLP, partial success): that is counted and logged.
    """

    def __init__(
        self,
        name: str,
        collector: Collector,
        written: Written,
        *,
        poster: Poster,
        rejected: Callable[[int], None],
        clock: Clock = time.time,
    ) -> None:
        """Send in the form `written`; `rejected` is told how many of a batch were not taken."""
        self._name = name
        self._collector = collector
        self._written = written
        self._poster = poster
        self._rejected = rejected
        self._clock = clock
        self._done = -1
        self._alone = -1

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Return once all of `records` have been taken.

        Raises:
            NotDelivered: They have not, or it is not known.

        """
        left = [one for one in records if one.leaf_index > self._done]
        if left and left[0].leaf_index == self._alone:
            await self._send(left[:1])
            left = left[1:]
        for batch in _batches(left):
            await self._send(batch)

    async def _send(self, batch: Sequence[StoredRecord]) -> None:
        body = await in_form(self._written, batch)
        answer = await self._answer(body) if body else None
        if answer is None or answer.status in _OK:
            # If what comes after it is not taken, this need not be sent again.
            self._done = batch[-1].leaf_index
            self._tell_rejected(answer.body if answer else b"")
        elif answer.status in _REFUSED and len(batch) > 1:
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
        else:
            raise self._not_taken(batch, answer)

    def _not_taken(self, batch: Sequence[StoredRecord], answer: Answer) -> NotDelivered:
        told = f"it answers with status {answer.status}"
        wait_s = retry_after_s(answer.headers, self._clock())
        if answer.status not in _REFUSED:
            return NotDelivered(told, retry_after_s=wait_s)
        self._alone = batch[0].leaf_index
        return NotDelivered(
            f"record {self._alone} is refused: {told}",
            retry_after_s=wait_s,
            refused=Refused(leaf_index=self._alone, answer=_told(answer, self._collector)),
        )

    async def _answer(self, body: bytes) -> Answer:
        headers = {**self._collector.headers, "content-type": self._written.media}
        try:
            return await self._poster.upload(self._collector.url, body, headers=headers)
        except (EgressRefused, UpstreamFailed) as error:
            raise NotDelivered(error.detail or error.public) from error

    def _tell_rejected(self, body: bytes) -> None:
        rejected = _partly(body)
        if rejected:
            self._rejected(rejected)
            logger.error("%s was sent records of which it rejected %d", self._name, rejected)


async def in_form(written: Written, records: Sequence[StoredRecord]) -> bytes:
    """Return records in a form. It is made in a thread: a batch takes tens of milliseconds."""

    def make() -> bytes:
        return written.of(
            [
                Stored(leaf_index=one.leaf_index, leaf_hash=one.leaf_hash, body=one.body)
                for one in records
            ]
        )

    return await asyncio.to_thread(make)


def _batches(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    start = size = 0
    for end, record in enumerate(records):
        if size + len(record.body) > _LARGEST_SENT_BYTES and end > start:
            yield records[start:end]
            start, size = end, 0
        size += len(record.body)
    if start < len(records):
        yield records[start:]


def _told(answer: Answer, collector: Collector) -> str:
    text = answer.body.decode("utf-8", "replace")
    for secret in collector.secrets:  # some answer with the request
        text = text.replace(secret, "***")
    text = " ".join(text.split())[:_LONGEST_TOLD]
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text)
    return f"status {answer.status}: {shown}" if shown else f"status {answer.status}"


def _partly(body: bytes) -> int:
    """Return how many records an OTLP answer says were rejected; others say nothing."""
    try:
        partial = json.loads(body).get("partialSuccess") or {}
        return sum(int(partial.get(name) or 0) for name in _REJECTED)
    except (ArithmeticError, ValueError, TypeError, AttributeError, RecursionError):
        return 0
