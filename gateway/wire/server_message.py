"""One JSON-RPC message of an upstream: read without ambiguity, rewritten without loss."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from http import HTTPStatus
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import Form
from gateway.domain.vocabulary import confusing
from gateway.errors import UpstreamFailed
from gateway.wire import jsontext
from gateway.wire.bounds import within
from gateway.wire.jsonrpc import is_id
from gateway.wire.jsontext import WireLimits

_NO_ID: Final = "server-error"
"""What servers by the SDK for Python call a request that they refused unread."""


@value
class ServerMessage:
    """What an upstream sent: a response, a notification, or a request of its own."""

    form: Form
    """`RESPONSE`, `NOTIFICATION` or `REQUEST`."""
    method: str
    """Empty for a response."""
    id: str | int | None
    """`None` for a notification, and for an error that answers nothing in particular."""
    content: Mapping[str, Any]
    """The whole message, unknown members and all, in the upstream's order. Read only."""
    data: bytes = field(default=b"", compare=False)
    """The JSON text of `content`: the very bytes that came, where nothing was taken out."""

    @property
    def result(self) -> Mapping[str, Any] | None:
        """A successful response's result."""
        found: Mapping[str, Any] | None = self.content.get("result")
        return found

    @property
    def error(self) -> Mapping[str, Any] | None:
        """A failed response's error."""
        found: Mapping[str, Any] | None = self.content.get("error")
        return found

    @property
    def params(self) -> Mapping[str, Any]:
        """A request's or notification's params, or nothing."""
        found: Mapping[str, Any] = self.content.get("params", {})
        return found


def read_server_message(data: bytes, limits: WireLimits) -> ServerMessage:
    """Return the one message in `data`: a whole body, or the data of one event.

    Raises:
        UpstreamFailed: As `parsed_message` and `require_plain`.

    """
    message = parsed_message(data, limits)
    require_plain(message)
    return message


def require_plain(message: ServerMessage) -> None:
    """Return if no careless reader reads another message than was judged.

    Raises:
        UpstreamFailed: It holds a member that could be taken for another one.

    """
    if confusing(message.content, "message") is not None:
        raise _malformed("a member is easily confused with another one")


def parsed_message(data: bytes, limits: WireLimits) -> ServerMessage:
    """Return the one message in `data`, whatever its members are called.

    Unknown members and integers of any size pass, for they are the upstream's to send.

    Raises:
        UpstreamFailed: It is no JSON, several messages, both result and error, or holds a member
            twice, so that a client might read another message than was judged.

    """
    try:
        content = jsontext.read_lenient(data, limits.json_depth)
    except ValueError as error:
        raise _malformed(str(error)) from error
    if not isinstance(content, dict) or content.get("jsonrpc") != "2.0":
        raise _malformed("not one JSON-RPC 2.0 object")
    rpc_id = content.get("id")
    if rpc_id is not None and not is_id(rpc_id):
        raise _malformed("the id is neither a string that may be one nor an integer")
    read = _asking if "method" in content else _answering
    return read(content, rpc_id, data)


def is_unread(message: ServerMessage, status: int) -> bool:
    """Whether a server that answered with `status` refuses with `message` what it has not read.

    It knows no id then, and tells the error under none, or under a word. Its status and its code tell
    a client that the session has ended, or what era the server speaks.
    """
    if message.error is None:
        return False
    return message.id is None or (message.id == _NO_ID and status >= HTTPStatus.BAD_REQUEST)


def with_members(message: ServerMessage, changed: Mapping[str, Any]) -> ServerMessage:
    """Return `message` with other members, and the text that says so."""
    content = {**message.content, **changed}
    id_ = content.get("id") if message.form is Form.RESPONSE else message.id
    return replace(message, id=id_, content=content, data=jsontext.write(content).encode())


def with_items(
    message: ServerMessage, member: str, items: Sequence[str | Mapping[str, Any]]
) -> bytes:
    """Return the list result `message` with `items` as its `member`, all else kept and in order.

    An item is JSON text, taken as it is, or an object. A list made for one principal is nobody
    else's, so a `cacheScope` becomes `private`, whatever it was (2026-07-28, caching).

    Raises:
        UpstreamFailed: `message` is no result with a list of that name.

    """
    result = _result(message)
    if not isinstance(result.get(member), list):
        raise _malformed(f"the result has no list of {member}")
    texts = {name: jsontext.write(inner) for name, inner in result.items() if name != member}
    if "cacheScope" in result:
        texts["cacheScope"] = '"private"'
    texts[member] = "[" + ",".join(map(_item_text, items)) + "]"
    return _with(message, "result", _object_text({name: texts[name] for name in result}))


def with_member(message: ServerMessage, member: str, content: Mapping[str, Any]) -> bytes:
    """Return `message` with `content` as its `result`, `error` or `params`, all else kept.

    Raises:
        UpstreamFailed: `message` has no such member.

    """
    if member not in message.content:
        raise _malformed(f"the message has no {member}")
    return _with(message, member, jsontext.write(content))


def _asking(content: dict[str, Any], rpc_id: str | int | None, data: bytes) -> ServerMessage:
    method = content["method"]
    if not isinstance(method, str) or not method:
        raise _malformed("the method is not a string")
    if not within(method):
        raise _malformed("the method is too long")
    if "result" in content or "error" in content:
        raise _malformed("both a request and a response")
    if not isinstance(content.get("params", {}), dict):
        raise _malformed("the params are not an object")
    if "id" in content and rpc_id is None:
        raise _malformed("a request's id is null")
    form = Form.REQUEST if "id" in content else Form.NOTIFICATION
    return ServerMessage(form=form, method=method, id=rpc_id, content=content, data=data)


def _answering(content: dict[str, Any], rpc_id: str | int | None, data: bytes) -> ServerMessage:
    if ("result" in content) is ("error" in content):
        raise _malformed("not exactly one of result and error")
    member = "result" if "result" in content else "error"
    if not isinstance(content[member], dict):
        raise _malformed(f"the {member} is not an object")
    if member == "result" and rpc_id is None:
        raise _malformed("a result has no id")
    return ServerMessage(form=Form.RESPONSE, method="", id=rpc_id, content=content, data=data)


def _result(message: ServerMessage) -> Mapping[str, Any]:
    if message.result is None:
        raise _malformed("the answer is no result")
    return message.result


def _with(message: ServerMessage, member: str, text: str) -> bytes:
    texts = {
        name: text if name == member else jsontext.write(inner)
        for name, inner in message.content.items()
    }
    return _object_text(texts).encode()


def _object_text(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{jsontext.write(name)}:{text}" for name, text in members.items()) + "}"


def _item_text(item: str | Mapping[str, Any]) -> str:
    return item if isinstance(item, str) else jsontext.write(item)


def _malformed(detail: str) -> UpstreamFailed:
    return UpstreamFailed("The server sent a malformed message", detail=detail)
