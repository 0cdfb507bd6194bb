"""How a call of a tool ended, read off what its caller got."""

import re
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

import orjson

from gateway.domain.calls import Reply
from gateway.wire.replies import REFUSAL_KEY

_PERHAPS_FAILED: Final = re.compile(rb'"isError"\s*:\s*true|"error"\s*:')
"""Of most answers this is all that is looked at: they are long, and nothing is wrong with them."""


class Outcome(StrEnum):
    """The closed set of ends."""

    OK = "ok"
    REFUSED = "refused"
    """The gateway said no."""
    FAILED = "failed"
    """The server could not be reached, gave an error or no answer, or its tool failed."""


def outcome_of(reply: Reply, last: bytes) -> Outcome:
    """Return how the call ended whose answer is `last`: a whole body, or a stream's last event."""
    if reply.code is not None:
        return Outcome.FAILED if reply.code == "upstream_failed" else Outcome.REFUSED
    if reply.status >= HTTPStatus.BAD_REQUEST:
        return Outcome.FAILED
    if isinstance(reply.body, bytes):
        return _of_message(last) if _PERHAPS_FAILED.search(last) else Outcome.OK
    lines = last.splitlines()
    data = b"\n".join(line[len(b"data:") :] for line in lines if line.startswith(b"data:"))
    return _of_message(data)


def _of_message(body: bytes) -> Outcome:
    try:
        message = orjson.loads(body)
    except ValueError:
        # Cut off; or in a spelling that orjson does not read, which perhaps says that it failed.
        return Outcome.FAILED
    result, error = _member(message, "result"), _member(message, "error")
    if not isinstance(result, dict):
        refusal = _member(error, "data")
        refused = isinstance(refusal, dict) and "decision_id" in refusal
        return Outcome.REFUSED if refused else Outcome.FAILED
    if result.get("isError") is not True:
        return Outcome.OK
    refusal = _member(result.get("_meta"), REFUSAL_KEY)
    failed = not isinstance(refusal, dict) or refusal.get("code") == "upstream_failed"
    return Outcome.FAILED if failed else Outcome.REFUSED


def _member(content: Any, name: str) -> Any:
    """Return a member of `content`, which a server wrote: it need not be an object."""
    return content.get(name) if isinstance(content, dict) else None
