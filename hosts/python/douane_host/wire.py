"""What is said on the wire: a declared task in `_meta`, and the two requests for a gateway alone."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

TASK_KEY: Final = "douane/task"
RUN_KEY: Final = "douane/run"
BEGIN: Final = "douane/run/begin"
END: Final = "douane/run/end"
MOST_LOOKED_AT: Final = 32 * 1024
"""Characters of the user's words that a gateway looks at, from their beginning."""
LONGEST_PROMPT: Final = 64 * 1024
"""Characters: a longer one is none."""

Message = dict[str, Any]

_HANDSHAKE: Final = frozenset({"initialize", "server/discover", "ping", "logging/setLevel"})
"""Requests that bring nothing into the conversation."""
_OURS: Final = "douane/"
_STATELESS: Final = "io.modelcontextprotocol/"
"""Begins what each request of a revision without sessions has to say."""
_OF_THE_BODY: Final = frozenset({"content-length", "content-encoding", "transfer-encoding"})
_OF_ANOTHER: Final = _OF_THE_BODY | {"mcp-name", "mcp-session-id", "last-event-id"}
_OF_AN_ARGUMENT: Final = "mcp-param-"
_METHOD: Final = "mcp-method"


def read(body: bytes) -> Message | None:
    """Return the request in `body` that is to declare a task; `None` if it is none."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "id" not in message:
        return None
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        return None
    if method in _HANDSHAKE or method.startswith(_OURS):
        return None
    return message


def words(text: str) -> str:
    """Return a person's `text` as it can be declared."""
    return text.encode(errors="replace").decode()[:LONGEST_PROMPT]


def newest(turns: Sequence[str]) -> list[str]:
    """Return as many of the newest turns as are looked at: whole ones, for half a word is another."""
    kept: list[str] = []
    for turn in reversed(turns):
        if kept and sum(map(len, kept)) + len(kept) + len(turn) > MOST_LOOKED_AT:
            break
        kept.append(turn)
    return kept[::-1]


def declared(message: Message, told: Mapping[str, Any]) -> bytes:
    """Return `message` with what is told in its `_meta`; what stands there already stays."""
    params = message.get("params", {})
    meta = params.get("_meta")
    both = {**told, **(meta if isinstance(meta, dict) else {})}
    return json.dumps({**message, "params": {**params, "_meta": both}}).encode()


def asked(method: str, params: Mapping[str, Any], like: Message) -> bytes:
    """Return a request for the gateway alone, in the revision that the request `like` is of."""
    meta = like.get("params", {}).get("_meta")
    needed = {
        name: content
        for name, content in (meta if isinstance(meta, dict) else {}).items()
        if name.startswith(_STATELESS)
    }
    params = {**params, "_meta": needed} if needed else params
    message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    return json.dumps(message).encode()


def headers_beside(headers: Mapping[str, str]) -> dict[str, str]:
    """Return `headers` without what they say of a body that is another one now."""
    return {name: text for name, text in headers.items() if name.lower() not in _OF_THE_BODY}


def headers_for(method: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request for the gateway alone, after those of any other request.

    It is in no session: a run may outlive the one beside which it was begun.
    """
    return {
        name: method if name.lower() == _METHOD else text
        for name, text in headers.items()
        if name.lower() not in _OF_ANOTHER and not name.lower().startswith(_OF_AN_ARGUMENT)
    }


def answer(body: bytes) -> tuple[Message, Message | None]:
    """Return the result in an answer, empty if there is none, and its error."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}, None
    if not isinstance(message, dict):
        return {}, None
    result, error = message.get("result"), message.get("error")
    return (
        result if isinstance(result, dict) else {},
        error if isinstance(error, dict) else None,
    )


def is_refusal(error: Message | None) -> bool:
    """Whether a Douane gateway says so: whoever else does not know the method."""
    data = (error or {}).get("data")
    return isinstance(data, dict) and "decision_id" in data
