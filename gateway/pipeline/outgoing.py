"""What of a call reaches its server that no label of a tool speaks of (stage 6)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from gateway.domain.calls import Form, Message
from gateway.domain.document import leaves, member_path
from gateway.flow.beside import NOTHING, Beside, Said
from gateway.flow.results import text_of
from gateway.flow.templates import filled_in
from gateway.wire.outgoing import Part, asides, beside_reference, has_place, part_of, remarks

Templates = Callable[[], tuple[str, ...]]
Names = Callable[[], Iterable[str]]
Returned = Callable[[str, str], bool]
"""Tells of a member and a text in it whether the server gave that out as that."""


def beside(
    message: Message,
    *,
    given: Callable[[str], bool],
    returned: Returned,
    asked: Callable[[str], bool],
    templates: Templates,
    declared: Names = tuple,
    wary: bool = False,
    as_written: bool = False,
) -> Beside:
    """Return what `message` says beside a tool's arguments.

    `given` tells which resources its server gave out, which go home, as does what it gave out as what it
    is `returned` as; and `asked` which of its questions it put
    in this very call, which alone have answers; `templates` tells those of its that were approved;
    `declared` tells the names of values that an approved definition asks for;
    `wary` is whoever looks even at ids and tokens, and `as_written` whose message goes on as it is: then
    also what its program calls itself counts, which is else told nobody who has not heard it before.
    """
    found = _Found()
    home = given, returned
    _in_params(found, message, home, templates, asked=asked, declared=frozenset(declared()))
    about = {
        name: inner
        for name, inner in remarks(message.params)
        if not (name == _MARK and isinstance(inner, int))
    }
    if about:
        found.asides += _said(about, "$._meta", _OF_EVERY_CALL)
    if wary:
        found.asides += [
            one
            for name, inner in asides(message, programs=as_written)
            for one in _texts(inner, member_path("$", name))
        ]
    return found.whole


def _in_params(
    found: "_Found",
    message: Message,
    home: tuple[Callable[[str], bool], Returned],
    templates: Templates,
    *,
    asked: Callable[[str], bool],
    declared: frozenset[str],
) -> None:
    given, returned = home
    for name, inner in message.params.items():
        part = part_of(message, name)
        if part in _SILENT:
            continue
        at = member_path("$", name)
        match part:
            case Part.PLACE:
                _place(found, at, inner, given, templates)
            case Part.GIVEN:
                found.places += [(p, t) for p, t in _texts(inner, at) if not returned(name, t)]
            case Part.CONTENT if has_place(message, name):
                found.content += _said(inner, at, declared)
            case Part.CONTENT:
                found.content += _said({name: inner}, "$", _NONE)
            case Part.ANSWER if message.form is Form.RESPONSE:
                found.answers += _said({name: inner}, "$", _NONE)
            case Part.ANSWER:
                _answers(found, at, inner, asked)
            case Part.NAME if name == "ref":
                found.content += _said(beside_reference(message.params), at, _NONE)
            case _:
                pass


_NONE: frozenset[str] = frozenset()
_MARK: Final = "progressToken"
_OF_EVERY_CALL: Final = frozenset({_MARK})
"""Of `_meta`: what the protocol names there itself. A count, as clients have it, tells nobody anything where
nobody has read anything; whoever is wary looks at it all the same."""
_SILENT: Final = frozenset({Part.PROTOCOL, Part.ARGUMENTS})
"""What says nothing beside: its form is fixed, or rules of its tool speak of it."""


class _Found:
    def __init__(self) -> None:
        self.places: list[tuple[str, str]] = []
        self.content: list[tuple[str, str]] = []
        self.answers: list[tuple[str, str]] = []
        self.asides: list[tuple[str, str]] = []

    @property
    def whole(self) -> Beside:
        found = {name: tuple(texts) for name, texts in vars(self).items()}
        return Beside(**found) if any(found.values()) else NOTHING


def _place(
    found: _Found, at: str, inner: Any, given: Callable[[str], bool], templates: Templates
) -> None:
    for path, text in _texts(inner, at):
        if given(text):
            continue
        values = next((v for t in templates() if (v := filled_in(t, text)) is not None), None)
        if values is None:
            found.places.append((path, text))
        else:
            found.content += [(path, one) for one in values]


def _answers(found: _Found, at: str, inner: Any, asked: Callable[[str], bool]) -> None:
    """Take what the server asked for as answers; to what it never asked nobody let it be told."""
    if not isinstance(inner, dict):
        found.content += _said(inner, at, _NONE)
        return
    for name, answer in inner.items():
        path = member_path(at, name)
        if asked(name):
            found.answers += _said(answer, path, _NONE)
        else:
            found.content.append((path, name))
            found.content += _said(answer, path, _NONE)


def _texts(content: Any, at: str) -> Said:
    return tuple(
        (path, text) for path, leaf in leaves(content, at) if (text := text_of(leaf)) is not None
    )


def _said(content: Any, at: str, declared: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield every text in `content`, and every name that nobody has approved there.

    A name that is known says nothing once; which of them stand in which order says something.
    """
    yield from ((path, text) for path, text in _texts(content, at) if text not in declared)
    waiting = [content]
    mute = 0
    known, told = declared | _KNOWN_NAMES, set[str]()
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            yield from ((at, name) for name in found if name not in known)
            mute += len(told.intersection(found))
            told |= known.intersection(found)
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)
        mute += not found or isinstance(found, bool)
    if mute:
        yield at, _MUTE * mute  # flags and what is empty say something by how many there are


_MUTE = "?"

_KNOWN_NAMES = frozenset(
    {
        "name", "value", "arguments", "action", "content", "role", "model", "stopReason", "type",
        "text", "data", "mimeType", "roots", "uri", "code", "message",
    }
)  # fmt: skip
"""Names that the protocol has in such values."""
