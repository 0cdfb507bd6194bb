"""What servers gave to a run, and the tokens that stand for it: known to this process, and to nobody else."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Final, TypeAlias

from gateway.dlp.scanning import Finding
from gateway.domain.bounded import Shared
from gateway.domain.flow import RunId
from gateway.flow.steps import steps_of

_OCTETS: Final = 16 * 1024**2
_MOST_GIVEN: Final = 4096
"""Values of one run; what comes after is known of nobody."""
_MOST_TOKENS: Final = 4096
_RUN: Final = 512
"""Bytes of a run beside its values."""
_ENTRY: Final = 150
"""Bytes that a value takes beside its letters."""
_JOINTS: Final = re.compile(r"[\s.()/-]+")
Draw: TypeAlias = Callable[[Sequence[int]], int]
"""Draws one of numbers so that nobody can tell which: `secrets.choice`."""
_NUMBERS: Final = range(100_000, 1_000_000)
TOKEN: Final = re.compile(r"<([A-Z][A-Z0-9_-]{0,40}):([1-9]\d{0,5})>")
"""What stands for a value: its class, and a number that was drawn for it."""


class RunValues:
    """Of one run: which server gave a value, and which token stands for it."""

    __slots__ = ("_draw", "_given", "_lock", "_octets", "_tokens", "_values")

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._given: dict[bytes, set[str]] = {}
        self._tokens: dict[tuple[str, str], str] = {}
        self._values: dict[str, str] = {}
        self._octets = 0
        self._lock = Lock()
        """Answers are masked beside the loop, several of a run at once."""

    @property
    def octets(self) -> int:
        """How many bytes this takes, about."""
        return self._octets

    def note(self, server: str, keys: Iterable[bytes]) -> None:
        """Take note of values that `server` answered with, by their `keys_of`."""
        for key in keys:
            if key in self._given:
                self._given[key].add(server)
            elif len(self._given) < _MOST_GIVEN:
                self._given[key] = {server}
                self._octets += _ENTRY

    def gave(self, server: str, text: str) -> bool:
        """Tell whether `server` answered with `text` in this run, however it joins its parts."""
        return server in self._given.get(_key(text), ())

    def givers(self, server: str, found: Iterable[Finding], prompt: str = "") -> Mapping[str, str]:
        """Return by whom each value that was found was given, that is on its way to `server`.

        `task`: the user's own words have it; `server`: this server gave it. Others' are not in it.
        """
        given: dict[str, str] = {}
        for text in {text for finding in found for text in finding.values}:
            if text in prompt:
                given[text] = "task"
            elif self.gave(server, text):
                given[text] = "server"
        return given

    def token(self, of: str, text: str) -> str | None:
        """Return the token that stands for `text` in this run; `None` if there are too many."""
        with self._lock:
            return self._tokens.get((of, text)) or self._made(of, text)

    def _made(self, of: str, text: str) -> str | None:
        if len(self._values) >= _MOST_TOKENS:
            return None
        name = of.removeprefix("own:").upper()
        # Drawn, not counted: one of before a restart, or one that a server made up, stands for nothing.
        made = f"<{name}:{self._draw(_NUMBERS)}>"
        while made in self._values:
            made = f"<{name}:{self._draw(_NUMBERS)}>"
        self._tokens[of, text] = made
        self._values[made] = text
        self._octets += _ENTRY + 2 * len(text)
        return made

    def value(self, token: str) -> str | None:
        """Return what `token` stands for in this run."""
        return self._values.get(token)


def keys_of(found: Iterable[Finding]) -> frozenset[bytes]:
    """Return by what the values of `found` are known: much to make of many, and quick to be noted."""
    return frozenset(_key(text) for finding in found for text in finding.values)


def _key(text: str) -> bytes:
    plain = "".join(_JOINTS.sub("", step).casefold() for step in steps_of(text))
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class ValueMemory:
    """The values of the runs used last. What is forgotten was given by nobody, and has no token."""

    def __init__(self, draw: Draw) -> None:
        """`draw` draws the numbers of tokens."""
        self._draw = draw
        self._runs: Shared[str, RunId, RunValues] = Shared(octets=_OCTETS)
        """By whose they are: nobody's have another's forgotten."""

    def of(self, who: str, run: RunId) -> RunValues:
        """Return what is known of `run`, one of `who`, which may be nothing yet."""
        return self.known(who, run) or RunValues(self._draw)

    def known(self, who: str, run: RunId) -> RunValues | None:
        """Return what is known of `run`, one of `who`, if anything is."""
        own = self._runs._of.get(who)  # noqa: SLF001 - on every call's way this is one call less
        return None if own is None else own.get(run)

    def keep(self, who: str, run: RunId, values: RunValues) -> None:
        """Keep `values` of `run`, grown by now."""
        if values.octets:
            self._runs.put(who, run, values, _RUN + values.octets)
