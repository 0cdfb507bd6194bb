"""Tells people's programs what has been recorded, signed as Standard Webhooks 1.0.0 says."""

import base64
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from gateway.domain._value import value
from gateway.errors import EgressRefused, UpstreamFailed
from gateway.export.chats import Shape, shaped
from gateway.export.messages import Message, message_of
from gateway.export.waiting import retry_after_s
from gateway.ports import Clock
from gateway.ports.following import CursorStore, NotDelivered, StoredRecord
from gateway.turns import awaited_whole

logger = logging.getLogger(__name__)

_OK = range(200, 300)
_REFUSALS = frozenset({400, 410, 413, 415, 422})
"""The receiver's word that this message will never be taken; all else may pass."""


class Answer(Protocol):
    """What a receiver answers."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]:
        """By their names in lower case."""
        ...


class Poster(Protocol):
    """The way out to receivers."""

    async def send(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        """Send `body` once, and return the answer; what it says is not read.

        Raises:
            EgressRefused: The URL or an address it resolves to is not allowed.
            UpstreamFailed: No answer in time.

        """
        ...


@value
class Receiver:
    """Who is told, and of what."""

    name: str
    url: str = field(repr=False)
    """Its path may be a secret."""
    key: bytes | None = field(repr=False)
    """What deliveries are signed with; `None`: the receiver looks at no signature."""
    events: frozenset[str]
    shape: Shape = Shape.JSON


class Webhook:
    """A `Sink` that sends what one receiver wants to hear of, in the order of the log.

    A message that does not arrive is tried again, and those after it wait, until it is of no more
    use to anybody. Other receivers, and calls, do not wait.
    """

    def __init__(
        self,
        receiver: Receiver,
        *,
        poster: Poster,
        approval_s: Callable[[], float],
        clock: Clock,
        count: Callable[[str], None],
        desk: Callable[[], str] = str,
    ) -> None:
        """Take the way out; `count` is told how each attempt ended.

        `approval_s` gives for how long a question waits now, `desk` the origin of the pages that
        messages lead to; empty where there are none.
        """
        self.receiver = receiver
        self._poster = poster
        self._approval_s = approval_s
        self._clock = clock
        self._count = count
        self._desk = desk
        self._done = -1

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Return once the receiver has all of `records` that it wants to hear of.

        Raises:
            NotDelivered: One has not arrived, or it is not known.

        """
        for record in records:
            if record.leaf_index <= self._done:
                continue  # it arrived before a later one did not
            message = message_of(record, approval_s=self._approval_s(), desk=self._desk())
            if message is not None and message.event in self.receiver.events:
                await self._tell(message)
            self._done = record.leaf_index

    async def send(self, id_: str, body: bytes) -> Answer:
        """Send one message, and return the answer.

        Raises:
            EgressRefused: Its URL leads where the gateway does not go.
            UpstreamFailed: No answer in time.

        """
        at, key = str(int(self._clock())), self.receiver.key
        sent = shaped(self.receiver.shape, body)
        headers = {
            "content-type": "application/json",
            "webhook-id": id_,
            "webhook-timestamp": at,
            **({} if key is None else {"webhook-signature": signature(key, id_, at, sent)}),
        }
        return await self._poster.send(self.receiver.url, sent, headers=headers)

    async def _tell(self, message: Message) -> None:
        if self._clock() - message.time > message.useful_s:
            self._drop("expired", message)
            return
        try:
            answer = await self.send(message.id, message.body)
        except (EgressRefused, UpstreamFailed) as error:
            self._count("failed")
            raise NotDelivered(error.detail or error.public) from error
        if answer.status in _OK:
            self._count("ok")
        elif answer.status in _REFUSALS:
            self._drop("refused", message)
        else:
            self._count("failed")
            raise NotDelivered(
                f"it answers with status {answer.status}",
                retry_after_s=retry_after_s(answer.headers, self._clock()),
            )

    def _drop(self, why: str, message: Message) -> None:
        self._count(why)
        logger.warning(
            "webhook %s: %s of record %s was not delivered: %s",
            self.receiver.name, message.type, message.id, why,
        )  # fmt: skip


class FromNow:
    """A `CursorStore` that lets a new follower begin with what happens from now on."""

    def __init__(self, cursors: CursorStore, newest: Callable[[], int]) -> None:
        """Take `newest`, which gives the last record's leaf index; it blocks."""
        self._cursors = cursors
        self._newest = newest

    async def cursor(self, name: str) -> int | None:
        """Return how far the follower has come; a new one has come to here, durably."""
        kept = await self._cursors.cursor(name)
        if kept is None:
            kept = await awaited_whole(self._newest)
            await self._cursors.move(name, kept)
        return kept

    async def move(self, name: str, leaf_index: int) -> None:
        """Remember that all up to `leaf_index` is done with."""
        await self._cursors.move(name, leaf_index)


def signature(key: bytes, id_: str, at: str, body: bytes) -> str:
    """Return the `webhook-signature` of a message, by the symmetric scheme (`v1`)."""
    signed = hmac.digest(key, b".".join([id_.encode(), at.encode(), body]), "sha256")
    return f"v1,{base64.b64encode(signed).decode()}"
