"""How pages write things down: addresses, commands, moments, and texts that others chose."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from gateway.domain.document import canonical
from gateway.pins.visible import visible

_UNSEEN = re.compile(
    r"(\\\\)|(\\u\{[0-9a-f]+\}|\\tags\{[^}]*+\}?|\\[nrte]|\\\{\d+ times\}| \\\{\d+ times\})"
)
"""What `visible` writes for what is not to be seen; a doubled backslash is none of it."""
_PLAIN = re.compile(r"[ !-\[\]-~]*", re.ASCII)
_LONG_BLANK = 9 * " "
"""Text of seen ASCII without a backslash or a long blank hides nothing: most of it is."""
_LONGEST = 64 * 1024


def href(path: str, /, **state: Any) -> str:
    """Return an address of ours, with what it says behind `?`; what is `None` or empty is left out."""
    said = {name: told for name, told in state.items() if told not in {None, ""}}
    return f"{quote(path)}?{urlencode(said)}" if said else quote(path)


def shell(*words: str, **options: Any) -> str:
    """Return a command as a shell takes it, with what hides in a word spelled out.

    Options come behind the words; one that is `None` or empty is left out, and of one that is `True`
    the name alone stands there. A word that looks like an option comes behind all of them, as none.
    """
    dash = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    said, last = list(words[:dash]), words[dash:]
    for name, told in options.items():
        if told in {None, "", False}:
            continue
        option = f"--{name.replace('_', '-')}"
        plain = told is True or str(told).startswith("-")
        said += [option if told is True else f"{option}={told}"] if plain else [option, str(told)]
    return " ".join(map(_quoted, (*said, *(("--", *last) if last else ()))))


def _quoted(word: str) -> str:
    """Quote a word; bash, zsh and ksh read `$'...'`, in which nothing is hidden."""
    if word.isprintable() and word.isascii():
        return shlex.quote(word)
    return f"$'{''.join(_in_dollars(each) for each in word)}'"


def _in_dollars(character: str) -> str:
    if character in {"'", "\\"}:
        return f"\\{character}"
    if character.isprintable() and (character.isascii() or character.isalnum()):
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= _LAST_OF_THE_PLANE else f"\\U{code:08x}"


_LAST_OF_THE_PLANE = 0xFFFF


def spelled(text: Any) -> Markup:
    """Return a text that others chose, with everything that hides spelled out and marked.

    A line ends where the text says so, after the mark that says it. Anything that is no text is
    told as JSON.
    """
    told = text if isinstance(text, str) else canonical(text).decode()
    if len(told) <= _LONGEST and _PLAIN.fullmatch(told) and _LONG_BLANK not in told:
        return escape(told)
    cut = "" if len(told) <= _LONGEST else "…"
    return marked(visible(told[:_LONGEST])) + cut


def marked(told: str) -> Markup:
    """Return what `visible` has made of a text, with what it spells out marked."""
    return Markup("").join(map(_marked, _UNSEEN.split(told)))


def sides(old: str | None, new: str | None) -> tuple[Markup, Markup]:
    """Return two texts that `visible` has made, with what is not alike in `del` and `ins`."""
    was, now = _pieces(old), _pieces(new)
    start = _alike(was, now)
    end = _alike(was[start:][::-1], now[start:][::-1])
    return _changed(was, start, end, "del"), _changed(now, start, end, "ins")


def _pieces(text: str | None) -> list[str]:
    """Take a text apart, but nothing that is spelled out."""
    found: list[str] = []
    for piece in _UNSEEN.split(text or ""):
        whole = piece and _UNSEEN.fullmatch(piece)
        found += [piece] if whole else list(piece or "")
    return found


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _changed(pieces: Sequence[str], start: int, end: int, tag: str) -> Markup:
    stop = len(pieces) - end
    before, changed, after = (
        marked("".join(part)) for part in (pieces[:start], pieces[start:stop], pieces[stop:])
    )
    inner = Markup(f"<{tag}>{{}}</{tag}>").format(changed) if changed else Markup("")  # noqa: S704 - a tag of ours
    return before + inner + after


def _marked(piece: str | None) -> Markup:
    if not piece:
        return Markup("")
    if piece == r"\n":
        return Markup('<span class="unseen">\\n</span>\n')
    if piece != r"\\" and _UNSEEN.fullmatch(piece):
        return Markup('<span class="unseen">{}</span>').format(piece)
    return escape(piece)


def moment(text: str | None) -> Markup:
    """Return a time of a use case (RFC 3339) for people: of UTC, to the second."""
    if not text:
        return Markup('<span class="quiet">never</span>')
    told = datetime.fromisoformat(text).strftime("%-d %b %Y, %H:%M:%S")
    return Markup('<time datetime="{}">{}</time>').format(text, told)


def clock(seconds: float) -> Markup:
    """Return a moment of today for people: of UTC, to the second."""
    now = datetime.fromtimestamp(seconds, UTC)
    told = f"{now:%H:%M:%S} UTC"
    return Markup('<time datetime="{}">{}</time>').format(now.isoformat(timespec="seconds"), told)


def short(digest: str | None) -> str:
    """Return the beginning of a digest or an id: enough to tell it from others."""
    told = digest or ""
    kind, colon, rest = told.rpartition(":")
    return f"{kind}{colon}{rest[:12]}"
