"""What the protocol fixes of a client's message: the rest is left out of what has no target.

Nobody decides on a ping or a handshake, so neither has room for what its caller would like to say.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.domain.calls import Form, Message
from gateway.domain.vocabulary import names_in
from gateway.errors import ProtocolError
from gateway.wire.extensions import approved_only, with_params
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY
from gateway.wire.jsonrpc import INVALID_PARAMS, is_request_id
from gateway.wire.outgoing import CLIENT, KNOWN_ABOUT, PARTS, Part
from gateway.wire.rev_handshake import REVISIONS as WITH_HANDSHAKE
from gateway.wire.revisions import REVISIONS

_META: Final = "_meta"
_PROGRESS: Final = "progressToken"
LEVELS: Final = frozenset(
    {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
)
_REVISION: Final = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")
"""A day, as all revisions are called, those to come among them."""
_SETTINGS: Final = frozenset({"extensions", "experimental"})
"""Of extensions that were approved for this server, which alone say what they set."""
_ABILITIES: Final = names_in("capabilities")
_WAYS: Final = names_in("ability")
_ABOUT_CLIENT: Final = names_in("implementation")
_WANTED: Final = names_in("wanted")
_FOLLOWED: Final = "resourceSubscriptions"


_OF_A_CALL: Final = frozenset({"name", "arguments", _META})
_OF_AN_ENVELOPE: Final = frozenset({MODERN_VERSION_KEY, MODERN_CAPABILITIES_KEY})
_NOTHING: Final[Mapping[str, Any]] = {}


def require_fixed(message: Message) -> None:
    """Return if what the protocol fixes in the params of `message` is as it fixes it.

    Raises:
        ProtocolError: A level is none, a token is no token, a number is something else.

    """
    parts = PARTS.get(message.method, {})
    meta = message.params.get(_META)
    about: Mapping[str, Any] = meta if isinstance(meta, dict) else {}
    wrong = [
        name
        for name, part in parts.items()
        if part is Part.PROTOCOL and name in message.params and name in _FORMS
        if not _FORMS[name](message.params[name])
    ]
    wrong += [
        name for name, form in _FORMS_ABOUT.items() if name in about and not form(about[name])
    ]
    if wrong:
        raise ProtocolError(
            f"params need a {wrong[0].rpartition('/')[2]} of the protocol's own form",
            rpc_code=INVALID_PARAMS,
            rpc_id=message.id,
        )


def says_only_its_call(message: Message) -> bool:
    """Whether `message` calls a tool and says nothing besides: no more than the envelope that all have.

    What is left out of messages, put back into them or proven of what they say has nothing to do there.
    """
    params = message.params
    if message.method != "tools/call" or not params.keys() <= _OF_A_CALL:
        return False
    meta = params.get(_META, _NOTHING)
    if not isinstance(meta, dict) or not meta.keys() <= _OF_AN_ENVELOPE:
        return False
    declared = meta.get(MODERN_CAPABILITIES_KEY, _NOTHING)
    return isinstance(declared, dict) and (
        not declared
        or (approved_only(declared, frozenset()) is declared and _abilities(declared) == declared)
    )


def bare(message: Message, *, has_target: bool) -> Message:
    """Return `message` without what the protocol has no place for; itself, if there is nothing.

    What has a target is judged with all that it says, and keeps it, but for what it says of its
    client.
    """
    if message.form not in {Form.REQUEST, Form.NOTIFICATION} or message.method not in PARTS:
        return message
    if has_target:
        kept = dict(message.params)
        if _META in kept:
            kept[_META] = _about(kept[_META], has_target=True)
    else:
        kept = {
            name: _held(name, inner)
            for name, inner in message.params.items()
            if PARTS[message.method].get(name, Part.CONTENT) is not Part.CONTENT
        }
    return message if kept == message.params else with_params(message, kept)


def _held(name: str, inner: Any) -> Any:
    match name:
        case "_meta":
            return _about(inner, has_target=False)
        case "capabilities":
            return _abilities(inner)
        case "clientInfo":
            return _named(inner)
        case "protocolVersion":
            return _offered(inner)
        case "notifications":
            return _wanted(inner)
        case _:
            return inner


def _about(meta: Any, *, has_target: bool) -> dict[str, Any]:
    if not isinstance(meta, dict):
        return {}
    kept = {
        name: inner
        for name, inner in meta.items()
        if has_target or name == _PROGRESS or name in KNOWN_ABOUT
    }
    if MODERN_CAPABILITIES_KEY in kept:
        kept[MODERN_CAPABILITIES_KEY] = _abilities(kept[MODERN_CAPABILITIES_KEY])
    if CLIENT in kept:
        kept[CLIENT] = _named(kept[CLIENT])
    return kept


def _abilities(capabilities: Any) -> dict[str, Any]:
    """Return what a client says it can do, in the protocol's own words."""
    given = capabilities if isinstance(capabilities, dict) else {}
    return {
        name: inner if name in _SETTINGS else _ways(inner)
        for name, inner in given.items()
        if name in _ABILITIES
    }


def _ways(ability: Any) -> Any:
    if not isinstance(ability, dict):
        return ability if isinstance(ability, bool) else {}
    return {
        name: inner if isinstance(inner, bool) else {}
        for name, inner in ability.items()
        if name in _WAYS
    }


def _offered(revision: Any) -> Any:
    """Return which revision a handshake offers: of one that is not known here, the newest that is.

    So a server would answer that does not know it. A day of its caller's choice would be room for a word.
    """
    known = revision in WITH_HANDSHAKE or not _is_day(revision)
    return revision if known else WITH_HANDSHAKE[-1]


def _named(client: Any) -> dict[str, Any]:
    given = client if isinstance(client, dict) else {}
    return {name: inner for name, inner in given.items() if name in _ABOUT_CLIENT}


def _wanted(notifications: Any) -> Any:
    if not isinstance(notifications, dict):
        return {}
    return {
        name: inner if name == _FOLLOWED else inner is True
        for name, inner in notifications.items()
        if name in _WANTED
    }


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _is_level(found: Any) -> bool:
    return isinstance(found, str) and found in LEVELS


def _is_day(found: Any) -> bool:
    return isinstance(found, str) and _REVISION.fullmatch(found) is not None


def _is_known(found: Any) -> bool:
    return isinstance(found, str) and found in REVISIONS


_FORMS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "level": _is_level,
    "protocolVersion": _is_day,
    "requestId": is_request_id,
    "progressToken": is_request_id,
    "progress": _is_number,
    "total": _is_number,
}
_FORMS_ABOUT: Final[Mapping[str, Callable[[Any], bool]]] = {
    _PROGRESS: is_request_id,
    "io.modelcontextprotocol/logLevel": _is_level,
    "io.modelcontextprotocol/subscriptionId": is_request_id,
    MODERN_VERSION_KEY: _is_known,
}
"""Of `_meta`."""
