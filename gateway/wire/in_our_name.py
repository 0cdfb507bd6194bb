"""What a server says in the gateway's name is taken out: only the gateway refuses for the gateway."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import re2

from gateway.domain.alike import Room, begins, nearly, reads_as
from gateway.domain.calls import Form
from gateway.domain.vocabulary import confusing, is_ours, names_in
from gateway.wire import jsontext
from gateway.wire.icons import without_unsafe_icons
from gateway.wire.jsonrpc import INTERNAL_ERROR
from gateway.wire.jsontext import WireLimits
from gateway.wire.replies import CODES
from gateway.wire.server_message import ServerMessage, parsed_message, require_plain

_META: Final = "_meta"
_FRAME: Final = names_in("message")
_FRAME_OF_AN_ANSWER: Final = _FRAME - {"params"}
_HINTS: Final = ("douane", "decision_id", "approval_id", "reasons", '"error"', r"\u")
"""One of these stands in every ASCII text that could hold a name of ours, whatever stands between its letters
that names are compared without."""
_BETWEEN: Final = r"(?:[ \x7f]|\\[bfnrt])*"
_HINTED: Final = re2.compile(
    "(?i)" + "|".join(_BETWEEN.join(map(re2.escape, one)) for one in _HINTS)
)
_OF_A_REFUSAL: Final = ({"decisionid"}, {"approvalid"}, {"code", "reasons"})
"""Members of our refusals that nobody else has a reason to send, or not together; as `nearly` has them."""
_OUR_CODES: Final = frozenset(told.rpc_code for told in CODES.values())
_OURS: Final = "douane-"
"""What our questions in an `input_required` result are called, and what their state begins with."""


def hear(data: bytes, limits: WireLimits) -> ServerMessage:
    """Return the one message in `data`, which a server sent, without what is ours alone to say.

    Nor is in it what nobody is to be shown, an icon that no client may load.

    That is every member of a `_meta` that begins with our prefix, however it is spelt and wherever
    the `_meta` stands; of an error the `data` that has the shape of a refusal, and a code of ours.

    Raises:
        UpstreamFailed: As `read_server_message`.

    """
    return theirs(parsed_message(data, limits))


def theirs(message: ServerMessage) -> ServerMessage:
    """Return `message`, which a server said, as `hear` does: also one that stood within another.

    Raises:
        UpstreamFailed: As `require_plain`.

    """
    frame = _FRAME_OF_AN_ANSWER if message.form is Form.RESPONSE else _FRAME
    strange = message.content.keys() - frame
    if strange:
        message = _in_its_frame(message, frame)
    data = message.data
    if _may_speak_for_us(data):
        message = _without_ours(message)
    require_plain(message)
    has_icons = b'"icons"' in data or b"\\u" in data
    return without_unsafe_icons(message) if has_icons else message


def _in_its_frame(message: ServerMessage, frame: frozenset[str]) -> ServerMessage:
    """Return `message` without what stands beside its result, error or params.

    Nobody judges what stands there, and JSON-RPC knows nothing there.
    """
    if confusing(message.content, "message") is not None:
        return message  # what may be taken for a part of it is refused
    kept = {name: inner for name, inner in message.content.items() if name in frame}
    return replace(message, content=kept, data=jsontext.write(kept).encode())


def _without_ours(message: ServerMessage) -> ServerMessage:
    kept = message.content
    if _speaks_for_us(kept):
        kept = _without_meta(kept)
    if message.error is not None and (error := _own_error(kept["error"])) != message.error:
        kept = {**kept, "error": error}
    if kept is message.content:
        return message
    return replace(message, content=kept, data=jsontext.write(kept).encode())


def asks_in_our_name(result: Mapping[str, Any]) -> bool:
    """Whether an `input_required` result has a question whose answer would be taken for ours."""
    asked, state = result.get("inputRequests"), result.get("requestState")
    names = asked if isinstance(asked, dict) else {}
    return any(begins(name, _OURS) for name in names) or (
        isinstance(state, str) and state.startswith(_OURS)
    )


def _may_speak_for_us(data: bytes) -> bool:
    """Whether it is worth looking: in plain ASCII without these words nothing is in our name."""
    return not data.isascii() or _HINTED.search(data) is not None


def _speaks_for_us(content: Any) -> bool:
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            # Letters and digits alone are not alike to it, and nearly all names are no more.
            odd = [name for name in node if not (name.isascii() and name.isalnum())]
            if any(_foreign(node[name]) != node[name] for name in odd if reads_as(name, _META)):
                return True
    return False


def _without_meta(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_meta(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for name, inner in node.items():
        foreign = _foreign(inner) if reads_as(name, _META) else inner
        if foreign or foreign == inner:  # of one that was ours alone nothing is left
            kept[name] = _without_meta(foreign)
    return kept


def _foreign(meta: Any) -> Any:
    """Return `meta` without our names; other than an object it has none."""
    if not isinstance(meta, dict):
        return meta
    return {name: inner for name, inner in meta.items() if not is_ours(name)}


def _own_error(told: dict[str, Any]) -> dict[str, Any]:
    """Return a server's error as one that nobody takes for a refusal."""
    if _refuses(told.get("data")):
        told = {name: inner for name, inner in told.items() if name != "data"}
    code = told.get("code")
    if not isinstance(code, int) or isinstance(code, bool) or code in _OUR_CODES:
        told = {**told, "code": INTERNAL_ERROR}
    return told


def _refuses(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    room = Room()
    if not all(map(room.has, data)):
        return True  # nobody compares so many names, and a refusal's no server is to give
    names = set(map(nearly, data))
    return any(names >= marks for marks in _OF_A_REFUSAL) or any(map(is_ours, data))
