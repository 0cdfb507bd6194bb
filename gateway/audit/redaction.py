"""How much of a call's arguments is written down, and what is written in place of the rest."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Protocol

from gateway.domain._value import value
from gateway.domain.document import is_plain_name, quoted_name
from gateway.domain.paths import Path, parse_path
from gateway.domain.tools import OWN

MOST_IN_ONE = 64
"""Items of one array, or members of one object, that are hashed one by one."""
MOST_QUOTED = 1024
"""Names in a text that are hashed one by one: no record holds a text with so many hashes whole."""
MOST_HASHED = 256
"""Strings and numbers of one record that are hashed one by one: each costs two microseconds."""

_MOST_NAMES = 4096
_LONGEST_KEPT = 64
_DEEPEST = 32
"""Levels of the arguments' shape that are kept; what is deeper is hashed as one."""

# A resource's name without a scheme is quoted from the first, so that it passes for no tool's.
_AS_IT_IS = re.compile(r"[A-Za-z0-9_./-]{1,128}|\['[A-Za-z0-9_./-]{1,128}'\]", re.ASCII)
_NAME_OF_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|token|apikey|privatekey|accesskey|signingkey|credential"
    r"|authorization|cookie|otp$|^pin$|^auth$|bearer|codeverifier|webhook"
)
_HASH = re.compile(r"[hb]\d+:[0-9a-f]{64}$", re.ASCII)
_QUOTED = "['"
_FOLDED = str.maketrans("", "", "_- ")
_CUT = "\u2026"
# A text that was cut may end within a name.
_QUOTED_NAME = re.compile(r"\['((?:[^'\\]|\\.)*)(?:'\]|\\?\Z)")


class Redaction(StrEnum):
    """How much of a call's arguments is written down. Results never are."""

    NONE = "none"
    """Neither the arguments nor any hash of them."""
    HASHED = "hashed"
    """A keyed hash of the whole, and the shape with one in place of every string and number."""
    SELECTED = "selected"
    """As `HASHED`, with what the level's paths select in clear."""
    FULL = "full"
    """In clear, but for what looks like a secret."""


_STRICTEST_FIRST = tuple(Redaction)


@value
class Level:
    """How the arguments of one tool are written down."""

    redaction: Redaction
    clear: tuple[Path, ...] = ()
    """Of `SELECTED`: what may be read."""


@value
class ServerLevels:
    """What is said of one server; `None` where nothing is."""

    level: Level | None = None
    tools: Mapping[str, Level]


class Levels:
    """Which level holds for which tool: its own, else its server's, else the one for all."""

    def __init__(
        self, everywhere: Level, servers: Mapping[str, ServerLevels] | None = None
    ) -> None:
        self._everywhere = everywhere
        self._servers = dict(servers or {})
        all_ = [everywhere]
        for server in self._servers.values():
            all_ += [*([server.level] if server.level else ()), *server.tools.values()]
        self._strictest = min(all_, key=lambda level: _STRICTEST_FIRST.index(level.redaction))

    def of(self, fields: Mapping[str, Any], tool: str = "") -> Level:
        """Return the level of a record with these fields, which is about `tool`, or about none."""
        server = fields.get("server")
        if server == OWN:
            # A program, and a call that names another tool, carry the arguments of any tool.
            return self._strictest
        known = self._servers.get(server) if isinstance(server, str) else None
        if known is None:
            return self._everywhere
        found = known.tools.get(tool, known.level) if tool else known.level
        return found or self._everywhere


class Screen(Protocol):
    """Knows secrets by their form, and the gateway's own word for word."""

    def suspects(self, octets: bytes) -> bool:
        """Say quickly whether a secret may be in `octets`, UTF-8 or JSON; a no is certain."""
        ...

    def screened(self, text: str) -> str:
        """Return `text` with something else in place of every secret."""
        ...


class Cover:
    """Puts keyed hashes in place of what may not be read."""

    def __init__(self, hash_of: Callable[[Any], str], screen: Screen) -> None:
        self.hash_of = hash_of
        self._screen = screen
        self.names: dict[str, _Name] = {}
        """What `name` has said of names that are short."""
        self._paths: dict[tuple[str, Redaction], str] = {}

    def arguments(self, content: Any, level: Level) -> Any:
        """Return what stands for `content` in a record; not for `NONE`, where nothing does."""
        clear = level.redaction is Redaction.FULL
        paths = level.clear if level.redaction is Redaction.SELECTED else ()
        return _Walk(self).covered(content, paths, 0, clear=clear)

    def destination(self, told: Any, shown: Any, level: Level) -> Any:
        """Return what stands for a destination: its value as a hash, and in clear where that is.

        `shown` is what stands for the arguments: where they hide it, so does this.
        """
        if not isinstance(told, dict) or "value" not in told or "path" not in told:
            return self.texts(told, level)
        members = dict(told)
        content, path = str(members.pop("value")), str(told["path"])
        members["path"] = self._path(path, level)
        if "from" in members:
            members["from"] = self.source(members["from"], level)
        if level.redaction is Redaction.NONE:
            return members
        members["value_hmac"] = self.hash_of(content)
        if level.redaction is Redaction.HASHED:
            return members
        if _is_clear(shown, path, content) and not self.is_secret(content):
            members["value"] = content
        return members

    def source(self, told: Any, level: Level) -> Any:
        """Return what stands for a result that was read before: the name of it may be a caller's."""
        shown = quoted_source(told)
        if shown is None or not isinstance(shown.get("tool"), str):
            return self.texts(told, level)
        return {**shown, "tool": self._path(shown["tool"], level)}

    def text(self, text: str, level: Level) -> str:
        """Return a text about a call, without secrets and without names that are data."""
        text = self._screen.screened(text)
        if level.redaction is Redaction.FULL or _QUOTED not in text:
            return text
        if level.redaction is Redaction.NONE:
            return _QUOTED_NAME.sub("['...']", text)
        rest = next(islice(_QUOTED_NAME.finditer(text), MOST_QUOTED, None), None)
        text = text if rest is None else text[: rest.start()]
        return _QUOTED_NAME.sub(lambda found: f"['{self.hash_of(_unquoted(found[1]))}']", text)

    def texts(self, content: Any, level: Level) -> Any:
        """Return `content` with `text` done to every string in it, to names of members as well."""
        if isinstance(content, str):
            return self.text(content, level)
        if isinstance(content, Mapping):
            return {
                self.text(str(name), level): self.texts(inner, level)
                for name, inner in content.items()
            }
        if isinstance(content, list | tuple):
            return [self.texts(inner, level) for inner in content]
        return content

    def suspects(self, body: bytes, level: Level) -> bool:
        """Say quickly whether `texts` may change something of a record with this `body`."""
        named = level.redaction is not Redaction.FULL and _QUOTED.encode() in body
        return named or self._screen.suspects(body)

    def is_secret(self, text: str) -> bool:
        """Say whether `text` holds what gives access."""
        suspected = self._screen.suspects(text.encode(errors="surrogatepass"))
        return suspected and self._screen.screened(text) != text

    def name(self, name: str) -> "_Name":
        """Return what is known of a member's name. Names repeat from call to call."""
        known = self.names.get(name)
        if known is None:
            folded = name.lower().translate(_FOLDED)
            known = _Name(
                plain=is_plain_name(name) is not None,
                hidden=self.is_secret(name),
                hides=_NAME_OF_SECRET.search(folded) is not None,
            )
            if len(self.names) >= _MOST_NAMES:
                self.names.clear()
            if len(name) <= _LONGEST_KEPT:
                self.names[name] = known
        return known

    def _path(self, path: str, level: Level) -> str:
        """Return what stands for a short text that repeats from call to call, such as a path."""
        key = (path, level.redaction)
        known = self._paths.get(key)
        if known is None:
            known = self.text(path, level)
            if len(self._paths) >= _MOST_NAMES:
                self._paths.clear()
            if len(path) <= _LONGEST_KEPT:
                self._paths[key] = known
        return known


@value
class _Name:
    """A member's name: whether it may be written down, and what it says of what it names."""

    plain: bool
    """An identifier, and so no data itself."""
    hidden: bool
    """It looks like a secret."""
    hides: bool
    """What it names is one, by its words."""


class _Walk:
    """One walk through the arguments of one record."""

    def __init__(self, cover: Cover) -> None:
        self._cover = cover
        self._hash_of = cover.hash_of
        self._left = MOST_HASHED

    def covered(self, content: Any, paths: Sequence[Path], depth: int, *, clear: bool) -> Any:
        """Return the shape of `content`; what one of `paths` selects, from here on, is clear."""
        kind = type(content)
        if kind is str:
            if clear and not self._cover.is_secret(content):
                return content
            return self._hashed(content)
        if content is None or kind is bool:
            return content
        if depth < _DEEPEST:
            if kind is dict:
                return self._members(content, paths, depth, clear=clear)
            if kind is list or kind is tuple:
                return self._items(content, paths, depth, clear=clear)
        return content if clear and (kind is int or kind is float) else self._hashed(content)

    def _members(
        self, content: dict[Any, Any], paths: Sequence[Path], depth: int, *, clear: bool
    ) -> dict[str, Any]:
        members: dict[str, Any] = {}
        names = self._cover.names
        for name, inner in content.items():
            if not clear and (len(members) >= MOST_IN_ONE or self._left <= 0):
                members[_CUT] = f"{len(content) - len(members)} more"
                break
            further = _further(paths, name) if paths else ()
            shown = clear or () in further
            known = names.get(name) or self._cover.name(name)
            kept = name if not known.hidden and (known.plain or shown) else self._hashed(name)
            hides = known.hides and inner is not None and type(inner) is not bool
            if hides or (not shown and type(inner) is str):
                members[kept] = self._hashed(inner)
            else:
                members[kept] = self.covered(inner, further, depth + 1, clear=shown)
        return members

    def _items(
        self, content: Sequence[Any], paths: Sequence[Path], depth: int, *, clear: bool
    ) -> list[Any]:
        items: list[Any] = []
        for index, inner in enumerate(content):
            if not clear and (index >= MOST_IN_ONE or self._left <= 0):
                items.append(f"{_CUT} {len(content) - index} more")
                break
            further = _further(paths, index) if paths else ()
            items.append(self.covered(inner, further, depth + 1, clear=clear or () in further))
        return items

    def _hashed(self, content: Any) -> str:
        self._left -= 1
        return self._hash_of(content)


def quoted_source(told: Any) -> Mapping[str, Any] | None:
    """Return what is told of a source, wherever, as a text may say it; nothing of what is none.

    A tool's or a prompt's has a plain name; any other is a resource's, whoever named it, and quoted.
    """
    if not isinstance(told, Mapping):
        return None
    name = told.get("tool")
    if not isinstance(name, str) or _AS_IT_IS.fullmatch(name):
        return told
    return {**told, "tool": quoted_name(name)}


def unquoted_source(told: Any) -> Any:
    """Return what is told of a source as it was before `quoted_source`, where that can be read."""
    name = told.get("tool") if isinstance(told, Mapping) else None
    if not isinstance(name, str) or _AS_IT_IS.fullmatch(name):
        return told
    if not (name.startswith(_QUOTED) and name.endswith("']")):
        return told
    return {**told, "tool": _unquoted(name[len(_QUOTED) : -len("']")])}


def _further(paths: Sequence[Path], key: str | int) -> Sequence[Path]:
    """Return what is left of the paths that lead through `key`."""
    return [path[1:] for path in paths if path and path[0] in {None, key}]


def _is_clear(shown: Any, path: str, content: str) -> bool:
    """Say whether what stands for the arguments shows `content` at `path`, which may be no path.

    A part of it may have been masked there, and `content` be that part.
    """
    try:
        steps = parse_path(path)
    except ValueError:
        return False
    for step in steps:
        named = isinstance(shown, dict) and step in shown
        if not named and not _is_item(shown, step):
            return False
        shown = shown[step]
    if not isinstance(shown, str) or content in steps:
        return True  # a name on the way, which is shown
    return not _HASH.match(shown) and content in shown


def _is_item(shown: Any, step: Any) -> bool:
    return isinstance(shown, list) and isinstance(step, int) and step < len(shown)


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
