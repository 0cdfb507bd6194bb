"""What the protocol fixes of a server's answer to a message that nobody decided about.

Nobody judges a list's frame, a greeting or the answer to a ping, so neither has room for what its
server would like to say: what the protocol does not know there is left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from gateway.domain.vocabulary import names_in
from gateway.wire.jsonrpc import INTERNAL_ERROR
from gateway.wire.outgoing import SUBSCRIPTION

Said: TypeAlias = Mapping[str, Any]
Forms: TypeAlias = Mapping[str, Callable[[Any], bool]]
_META: Final = "_meta"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"
_TYPES: Final = frozenset({"complete", "input_required"})
_SETTINGS: Final = frozenset({"extensions", "experimental"})
"""Of extensions that were approved for this server, which alone say what they set."""
_QUIET: Final = frozenset(
    {"resultType", "ttlMs", "cacheScope", "protocolVersion", "supportedVersions"}
    | {_META, "capabilities", "instructions", "serverInfo"}
)
"""Members that say nothing, or what was approved."""
_SECOND_MS: Final = 1_000
"""What is less says nothing by itself; so do as many whole seconds as a day has."""
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_MOST_VERSIONS: Final = 64
_CALLED: Final = re.compile(r"\w[\w .@/:+()&'-]{0,63}")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}", re.ASCII)
_NO_VERSION: Final = "unknown"
"""Clients want one."""
_FARTHEST: Final = 100_000
"""From 0, of an error's code: room for no number that means something by itself."""
_REVISION: Final = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")


def bare_result(result: Said, member: str = "", id_: str | int | None = None) -> Said:
    """Return `result` without what the protocol has no place for.

    `member` is the one that holds a list, whose items are looked at elsewhere. `id_` is that of the
    request that it answers: a subscription is called by nothing else.
    """
    return _framed(result, {**_FRAME, member: lambda _: True} if member else _FRAME, id_)


def span_ms(said: float) -> int:
    """Return the milliseconds that a server says, in whole seconds, beyond a day in hours: a number tells no more."""
    step = _HOUR_MS if said > _DAY_MS else _SECOND_MS if said >= _SECOND_MS else 1
    return int(said // step) * step


def bare_greeting(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a handshake or a discovery without what the protocol has no place for."""
    kept = _framed(result, _GREETS)
    if "capabilities" in kept:
        kept["capabilities"] = _abilities(kept["capabilities"])
    if "serverInfo" in kept:
        kept["serverInfo"] = _program(kept["serverInfo"])
    if "supportedVersions" in kept:
        kept["supportedVersions"] = _revisions(kept["supportedVersions"])
    return kept


def unread(bare: Mapping[str, Any], member: str | None = None) -> Mapping[str, Any]:
    """Return what `bare` says in its server's own words, though nobody has approved or judged it.

    So it is of where a list goes on, and of its server's version.
    """
    told = {name: inner for name, inner in bare.items() if name != member and name not in _QUIET}
    programs = (bare.get("serverInfo"), bare.get(_META, {}).get(_SERVER))
    versions = [program["version"] for program in programs if program and "version" in program]
    return {**told, "versions": versions} if versions else told


def bare_error(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error in our own words: its code, which revisions there are, and what is asked of clients."""
    code = error.get("code")
    known = isinstance(code, int) and not isinstance(code, bool) and abs(code) < _FARTHEST
    kept: dict[str, Any] = {
        "code": code if known else INTERNAL_ERROR,
        "message": "the server refused",
    }
    data = error.get("data")
    if not isinstance(data, dict):
        return kept
    told: dict[str, Any] = {}
    if revisions := _revisions(data.get("supported")):
        told["supported"] = revisions
        if _is_revision(data.get("requested")):
            told["requested"] = data["requested"]
    if isinstance(required := data.get("requiredCapabilities"), dict):
        told["requiredCapabilities"] = {
            name: {} for name, inner in _abilities(required).items() if isinstance(inner, dict)
        }
    return {**kept, "data": told} if told else kept


def _framed(result: Said, forms: Forms, id_: str | int | None = None) -> dict[str, Any]:
    """Return what is of one of `forms`, and what the protocol knows of `_meta`, in its place."""
    kept = {name: inner for name, inner in result.items() if _fits(name, inner, forms)}
    if "ttlMs" in kept:
        kept["ttlMs"] = span_ms(min(kept["ttlMs"], _DAY_MS))
    meta = result.get(_META)
    about: dict[str, Any] = {}
    if isinstance(meta, dict):
        if id_ is not None and meta.get(SUBSCRIPTION) == id_:
            about[SUBSCRIPTION] = id_
        if isinstance(program := meta.get(_SERVER), dict):
            about[_SERVER] = _program(program)
    if about:
        kept[_META] = about
    return kept


def _abilities(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server says it can do, in the protocol's own words."""
    known, ways = names_in("capabilities"), names_in("ability")
    return {
        name: inner
        if name in _SETTINGS
        else {way: said for way, said in inner.items() if way in ways and isinstance(said, bool)}
        for name, inner in capabilities.items()
        if name in known and isinstance(inner, dict)
    }


def renamed(served: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a bare result in which its server is called as `identity` has it, of its own version.

    `identity` is no word of the server's: a person has read it, or the operator has written it.
    """
    changed = dict(served)
    if "serverInfo" in changed:
        changed["serverInfo"] = _renamed(changed["serverInfo"], identity)
    meta = changed.get(_META, {})
    if _SERVER in meta:
        changed[_META] = {**meta, _SERVER: _renamed(meta[_SERVER], identity)}
    return changed


def _renamed(program: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
    called = {name: identity[name] for name in ("name", "title") if name in identity}
    return {**called, "version": program.get("version", _NO_VERSION)}


def _program(program: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a server is called; what it says of itself a person has to read first."""
    return {
        name: program[name]
        for name, form in _IDENTITY.items()
        if isinstance(program.get(name), str) and form.fullmatch(program[name])
    }


_IDENTITY: Final = {"name": _CALLED, "title": _CALLED, "version": _VERSION}


def _fits(name: str, inner: Any, forms: Mapping[str, Callable[[Any], bool]]) -> bool:
    """Whether a member is as the protocol has it. What it has no name for may be prose by its name."""
    return name in forms and forms[name](inner)


def _is_revision(said: object) -> bool:
    return isinstance(said, str) and _REVISION.fullmatch(said) is not None


def _revisions(said: object) -> list[str]:
    return list(filter(_is_revision, said[:_MOST_VERSIONS])) if isinstance(said, list) else []


def _is_object(said: object) -> bool:
    return isinstance(said, dict)


def _is_number(said: object) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool)


_FRAME: Final[Mapping[str, Callable[[Any], bool]]] = {
    "resultType": lambda said: isinstance(said, str) and said in _TYPES,
    "nextCursor": lambda said: said is None or isinstance(said, str),
    "ttlMs": lambda said: _is_number(said) and said >= 0,
    "cacheScope": lambda said: said in ("public", "private"),
}
"""What may stand beside a list, and how it looks."""
_GREETS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **_FRAME,
    "protocolVersion": _is_revision,
    "supportedVersions": lambda said: isinstance(said, list),
    "capabilities": _is_object,
    "serverInfo": _is_object,
    "instructions": lambda said: isinstance(said, str),
}
