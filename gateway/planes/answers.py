"""What a server answered by HTTP: the one message of it that is an answer, and nothing beside it."""

from itertools import islice
from typing import Final

from gateway.domain._value import value
from gateway.domain.calls import Message
from gateway.domain.nodes import weight
from gateway.errors import GatewayError, LimitExceeded
from gateway.turns import QUICK_NODES
from gateway.wire import jsontext
from gateway.wire.jsontext import WireLimits
from gateway.wire.sse import data_event, events_of

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
MOST_EVENTS: Final = 4_096
"""Of one stream, those that say nothing among them: each is cut out and read by itself."""
_SHORT_STREAM: Final = 8_192
"""Octets. In more there may be more events than `weight` tells, which counts what JSON has."""


@value
class Answer:
    """An answer as it came: in a body of its own, or in an event of a stream."""

    body: bytes
    in_stream: bool

    def framed(self, given: bytes) -> bytes:
        """Return `given` in the place of the answer, in the form in which that came."""
        return data_event(given).raw if self.in_stream else given


def answer_in(asked: Message, media: str, body: bytes, limits: WireLimits) -> Answer | None:
    """Return the answer to `asked`; `None`: there is none that everybody would find.

    What a server says beside it in a stream, progress and logs and requests of its own, is left out.

    Raises:
        LimitExceeded: A stream has too many events.

    """
    media = media_in(media)
    if media == _JSON:
        return Answer(body=body, in_stream=False) if _answers(asked, body, limits) else None
    if not media:
        return None
    try:
        events = list(islice(events_of(body, limits), MOST_EVENTS + 1))
    except GatewayError:
        return None
    if len(events) > MOST_EVENTS:
        raise LimitExceeded(f"its stream has more than {MOST_EVENTS} events")
    said = [event.data for event in events if event.data]
    found = [data for data in said if _answers(asked, data, limits)]
    return Answer(body=found[0], in_stream=True) if len(found) == 1 else None


def nodes_in(media: str, body: bytes) -> int:
    """Return how much work it is to find an answer in `body`."""
    is_long = media_in(media) == _EVENTS and len(body) > _SHORT_STREAM
    return QUICK_NODES + 1 if is_long else weight(body)


def media_in(told: str) -> str:
    """Return the protocol's media type that a head tells; nothing, if it is none."""
    media = told.partition(";")[0].strip().lower()
    return media if media in {_JSON, _EVENTS} else ""


def _answers(asked: Message, data: bytes, limits: WireLimits) -> bool:
    """Whether `data` is a response with the id of `asked`, which is judged afterwards."""
    try:
        content = jsontext.read_lenient(data, limits.json_depth)
    except ValueError:
        return False
    if not isinstance(content, dict) or "method" in content:
        return False
    found = content.get("id")
    return found == asked.id and type(found) is type(asked.id)
