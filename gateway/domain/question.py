"""A question to policy, and what of it is the same as in other questions."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Self, TypeVar

from gateway.domain.decisions import Decision

Made = TypeVar("Made")

VARIED: Final = (("arguments",), ("result",), ("usage",), ("dlp",), ("context", "time"))
"""Where questions in the same circumstances differ."""

NOTHING_FOUND: Final[Mapping[str, Any]] = {"arguments": [], "result": []}
"""What `dlp` says where nothing sensitive was found."""


class Circumstances:
    """All that a question says beside `arguments`, `result`, `usage`, `dlp` and the time: one for all that agree there.

    A policy that finds the same in what it reads of these has one answer for all of them.
    """

    __slots__ = ("_decided", "_made", "sections")

    def __init__(self, sections: Mapping[str, Any]) -> None:
        """`sections` are the question's other members; its `context` lacks only the time."""
        self.sections = sections
        self._decided: tuple[object, bytes, Decision] | None = None
        self._made: dict[str, tuple[object, Any]] = {}

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self:
        """Return those of a question of phase `call`."""
        apart = {"arguments", "usage", "dlp"}
        sections = {name: inner for name, inner in asked.items() if name not in apart}
        context = {name: inner for name, inner in asked["context"].items() if name != "time"}
        return cls({**sections, "context": context})

    def decision_of(self, engine: object, besides: bytes) -> Decision | None:
        """Return what `engine` said last in these circumstances, if it read the same `besides`."""
        known = self._decided
        return known[2] if known is not None and known[:2] == (engine, besides) else None

    def decide(self, engine: object, besides: bytes, decision: Decision) -> None:
        """Keep what `engine` says in these circumstances, where it reads `besides` (a digest)."""
        self._decided = engine, besides, decision

    def once(self, what: str, of: object, make: Callable[[], Made]) -> Made:
        """Return `what` these make together with `of`: made once for as long as that is equal."""
        known = self._made.get(what)
        if known is None or known[0] != of:
            known = self._made[what] = of, make()
        made: Made = known[1]
        return made

    def with_sections(self, sections: Mapping[str, Any]) -> "Circumstances":
        """Return these, of which `sections` are others."""
        return Circumstances({**self.sections, **sections})


class Question(dict[str, Any]):
    """A question, as policy gets it. Whoever changes one makes another dict, which has no circumstances."""

    __slots__ = ("circumstances",)

    def __init__(self, circumstances: Circumstances, *, time: str, **others: Any) -> None:
        """Ask in `circumstances` at `time`, with `others`: `arguments`, `usage`, `dlp`, and then `result`."""
        super().__init__(circumstances.sections)
        self["context"] = {**circumstances.sections["context"], "time": time}
        self.update(others)
        self.circumstances = circumstances
