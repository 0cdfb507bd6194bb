"""Many requests over the one line in and the one line out of a local server's process.

Whose an answer is, its id says; whose a progress notification, its token; whose a change of a list,
its subscription. What else the server says goes to the request that was made last, as servers speak of
what they do; and with none under way to whoever listens.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.calls import Form, RawAnswer
from gateway.errors import GatewayError, LimitExceeded, UpstreamFailed
from gateway.upstream.child import Child
from gateway.upstream.faults import too_large, unusable
from gateway.upstream.inbox import Backlog, Ending, Heard, Inbox, Messages
from gateway.upstream.replies import read_in_turn
from gateway.upstream.settings import LocalSettings
from gateway.wire import jsontext
from gateway.wire.jsonrpc import METHOD_NOT_FOUND
from gateway.wire.server_message import ServerMessage

logger = logging.getLogger(__name__)

JSON: Final = (("content-type", "application/json"),)
EVENTS: Final = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))

_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_PROGRESS: Final = "notifications/progress"
_BY_ITSELF: Final = ("/list_changed", "/updated")
"""How the methods end by which a server tells of changes that nobody's request has made."""
_KEPT: Final = 100
"""Messages that are kept for whoever listens next; of more, the newest."""
_KEPT_BYTES: Final = 16 * 1024
"""Of one of them."""
_CUT: Final = 1000
"""Requests that were left unanswered; more are the process's end."""
_NOISE: Final = 10_000
"""Lines in a row that are no messages, empty ones too; more are the process's end."""

Key: TypeAlias = tuple[type, str | int]
"""An id or a token: 1 and "1" are different ones (JSON-RPC 2.0 section 4)."""


@value
class Asked:
    """A request for a local server."""

    body: bytes
    id: str | int
    method: str
    progress: str | int | None = None
    """Its `progressToken`."""
    listens: bool = False
    """Whether it waits for what the server says by itself."""

    @classmethod
    def of(cls, body: bytes, id_: str | int, method: str, params: Mapping[str, Any]) -> "Asked":
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        return cls(
            body=body,
            id=id_,
            method=method,
            progress=token if isinstance(token, str | int) else None,
            listens=method == "subscriptions/listen",
        )


class Channel:
    """One process, spoken to in one family of revisions. `aclose` ends both."""

    def __init__(
        self, child: Child, settings: LocalSettings, *, stateless: bool, owner: str, person: str
    ) -> None:
        """`owner` is the one principal whose messages it carries, and `person` theirs."""
        self.owner = owner
        self.person = person
        self.stateless = stateless
        self.used_at = asyncio.get_running_loop().time()
        self._child = child
        self._timeouts = settings.timeouts
        self._limits = settings.limits
        self._backlog = Backlog(settings.limits.result_bytes)
        self._waiting: dict[Key, Inbox] = {}
        self._by_token: dict[Key, Inbox] = {}
        self._plain: dict[int, Inbox] = {}
        """Of requests that do not listen, oldest first."""
        self._listener: Inbox | None = None
        self._kept: deque[Heard] = deque(maxlen=_KEPT)
        self._cut: dict[Key, Key | None] = {}
        """The tokens of requests whose reader went away, by id, until they are answered."""
        self._noise = 0
        self._reading = asyncio.create_task(self._read())

    @property
    def ended(self) -> bool:
        """Whether it carries nothing any more."""
        return self._child.ended

    @property
    def busy(self) -> bool:
        """Whether somebody waits for what it says."""
        return bool(self._waiting) or self._listener is not None

    def is_free_for(self, asked: Asked) -> bool:
        """Whether no answer to come could be taken for this request's: by its id, or its token."""
        ids, tokens = (self._waiting, self._cut), (self._by_token, self._cut.values())
        token = None if asked.progress is None else _key(asked.progress)
        return not any(_key(asked.id) in table for table in ids) and (
            token is None or not any(token in table for table in tokens)
        )

    def waits_for(self, id_: object) -> bool:
        """Whether a request of this id is under way."""
        return isinstance(id_, str | int) and _key(id_) in self._waiting

    async def ask(self, asked: Asked) -> RawAnswer:
        """Send a request, once, and return its answer: whole, or streamed if there is more of it.

        Raises:
            UpstreamFailed: No answer in time, none of MCP, or a request of this id is under way.
            LimitExceeded: The answer is larger than the limits allow.

        """
        if not self.is_free_for(asked):
            raise unusable("a request of the same id or progress token is under way")
        inbox = self._expect(asked)
        messages = self._messages(inbox, partial(self._leave, asked, inbox), listens=asked.listens)
        try:
            await self.tell(asked.body)
            heard = await messages.first()
        except BaseException:
            await messages.aclose()
            raise
        if not heard.final:
            return RawAnswer(status=HTTPStatus.OK, headers=EVENTS, session=None, body=messages)
        return RawAnswer(status=HTTPStatus.OK, headers=JSON, session=None, body=heard.line)

    async def tell(self, body: bytes) -> None:
        """Send what has no answer: a notification, or an answer.

        Raises:
            UpstreamFailed: The process has ended, or does not read; then it is ended.

        """
        self._use()
        try:
            await self._child.write(one_line(body))
        except UpstreamFailed as error:
            self._fail(error)
            self._reading.cancel()
            raise

    def listen(self) -> RawAnswer | None:
        """Return the stream of what the server says by itself; `None` if somebody has it."""
        if self._listener is not None:
            return None
        self._use()
        inbox = self._listener = Inbox(self._backlog, self._kept)
        self._kept = deque(maxlen=_KEPT)
        messages = self._messages(inbox, self._unlisten, listens=True)
        return RawAnswer(status=HTTPStatus.OK, headers=EVENTS, session=None, body=messages)

    async def aclose(self) -> None:
        """End the process; whoever waits for it is told. Returns when it is gone."""
        self._fail(unusable("the process was ended"))
        self._reading.cancel()
        await asyncio.wait([self._reading])
        await self._child.end()

    def _messages(self, inbox: Inbox, left: Callable[[Ending], None], *, listens: bool) -> Messages:
        return Messages(
            inbox,
            timeouts=self._timeouts,
            limits=self._limits,
            server=self._child.name,
            left=left,
            listens=listens,
        )

    def _use(self) -> None:
        self.used_at = asyncio.get_running_loop().time()

    def _expect(self, asked: Asked) -> Inbox:
        if self.ended:
            raise unusable("the process has ended")
        inbox = Inbox(self._backlog)
        self._waiting[_key(asked.id)] = inbox
        if asked.progress is not None:
            self._by_token[_key(asked.progress)] = inbox
        if not asked.listens:
            self._plain[id(inbox)] = inbox
        return inbox

    def _leave(self, asked: Asked, inbox: Inbox, ending: Ending) -> None:
        """Forget a request that nobody waits for any more, and tell the server where that ends it."""
        self._use()
        self._waiting.pop(_key(asked.id), None)
        self._plain.pop(id(inbox), None)
        if asked.progress is not None:
            self._by_token.pop(_key(asked.progress), None)
        if ending is Ending.ANSWERED or self.ended:
            return
        self._cut[_key(asked.id)] = None if asked.progress is None else _key(asked.progress)
        if len(self._cut) > _CUT:
            self._fail(unusable("it leaves too many requests unanswered"))
            self._reading.cancel()
        # A client of the legacy revisions that went away may come back for the response.
        elif (ending is Ending.GIVEN_UP or self.stateless) and asked.method != "initialize":
            self._child.post(_cancelled(asked.id))

    def _unlisten(self, _: Ending) -> None:
        self._use()
        self._listener = None

    async def _read(self) -> None:
        """Hand out what the process says until it ends, and then say that it has."""
        failure: GatewayError = unusable("the process has ended")
        try:
            async for line in self._child.lines():
                self._noise += 1
                if line:
                    await self._take(line)
                if self._noise > _NOISE:
                    raise too_large(f"more than {_NOISE} lines in a row that are no messages")
        except LimitExceeded as error:
            failure = error
        finally:
            self._fail(failure)
            await self._child.end()

    async def _take(self, line: bytes) -> None:
        try:
            message = await read_in_turn(self.person, line, self._limits.wire)
        except UpstreamFailed as error:
            if line.startswith((b"{", b"[")):
                # It may have been the answer of any of them.
                self._fail_waiting(error)
            else:
                logger.debug("a local server wrote a line that is no message")
            return
        self._noise = 0
        if message.form is Form.REQUEST and self.stateless:
            await self._refuse(message)
        elif message.form is Form.RESPONSE:
            await self._take_response(line, message)
        else:
            await self._take_other(line, message)

    async def _take_response(self, line: bytes, message: ServerMessage) -> None:
        key = None if message.id is None else _key(message.id)
        if key is not None and (inbox := self._waiting.pop(key, None)) is not None:
            # What comes after a response belongs to nobody.
            await inbox.put(Heard(line=line, final=True))
        elif key is not None and key in self._cut:
            del self._cut[key]
            if self._listener is not None:  # MCP 2025-11-25, resumability
                await self._listener.put(Heard(line=line))

    async def _take_other(self, line: bytes, message: ServerMessage) -> None:
        """Hand a notification, or a request of the server's, to whom it is for."""
        key, is_progress = _addressee(message), message.method == _PROGRESS
        heard = Heard(line=line, beside=key is None or not is_progress)
        if key is not None:
            inbox = (self._by_token if is_progress else self._waiting).get(key)
        elif self._listener is not None and message.method.endswith(_BY_ITSELF):
            inbox = self._listener
        else:
            inbox = next(reversed(self._plain.values()), self._listener)
            if inbox is None and len(line) <= _KEPT_BYTES:
                self._kept.append(heard)
        if inbox is not None:
            await inbox.put(heard)

    async def _refuse(self, message: ServerMessage) -> None:
        """Answer a request that no server of the stateless revision may make."""
        error = {"code": METHOD_NOT_FOUND, "message": "servers make no requests in this revision"}
        body = jsontext.write_octets({"jsonrpc": "2.0", "id": message.id, "error": error})
        with suppress(UpstreamFailed):
            await self.tell(body)

    def _fail_waiting(self, failure: GatewayError) -> None:
        for inbox in list(self._waiting.values()):
            inbox.fail(failure)

    def _fail(self, failure: GatewayError) -> None:
        self._child.ended = True
        self._fail_waiting(failure)
        if self._listener is not None:
            self._listener.fail(failure)


def one_line(body: bytes) -> bytes:
    """Return a JSON text without line breaks; they can only be white space between its tokens."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ")


def _addressee(message: ServerMessage) -> Key | None:
    """Return whose a notification says that it is: a request's token, or a subscription's id."""
    meta = message.params.get("_meta")
    named = meta.get(_SUBSCRIPTION) if isinstance(meta, dict) else None
    if message.method == _PROGRESS:
        named = message.params.get("progressToken")
    return _key(named) if isinstance(named, str | int) else None


def _cancelled(id_: str | int) -> bytes:
    params = {"requestId": id_, "reason": "nobody waits any more"}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return jsontext.write_octets(message)


def _key(id_: str | int) -> Key:
    return (type(id_), id_)
