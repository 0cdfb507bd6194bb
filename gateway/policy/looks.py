"""Places in a question that a policy looks at, and which of those that nobody knows matter."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.domain._value import value

Path = tuple[str, ...]
"""Member names; `*` stands for any."""

Condition = tuple[Path, Any]
"""A place in the input, and the constant that must stand there."""

DEEP = 1 << 30
"""Into everything that is there."""

ALWAYS: frozenset[Condition] = frozenset()


@value
class Look:
    """A place that a policy looks at, how deep, and when."""

    path: Path
    depth: int
    """0: whether it is there, and its value if it is no container; 1: also its members' names."""
    when: frozenset[Condition] = ALWAYS
    """It does not look unless all of them hold."""

    def meets(self, unknown: Path) -> bool:
        """Tell whether an answer may depend on what is at `unknown`, or below."""
        shared = min(len(self.path), len(unknown))
        if any(
            one != other and "*" not in (one, other)
            for one, other in zip(self.path[:shared], unknown[:shared], strict=True)
        ):
            return False
        return len(unknown) - len(self.path) <= self.depth

    def holds_for(self, question: Mapping[str, Any]) -> bool:
        """Tell whether it can look there when it is asked `question`."""
        return all(_may_be(question, path, constant) for path, constant in self.when)


EVERYTHING = Look(path=(), depth=DEEP)


def needed(
    looks: Iterable[Look], question: Mapping[str, Any], unknown: Iterable[Path]
) -> tuple[Path, ...]:
    """Return which of the `unknown` members of a question an answer may depend on."""
    looking = [look for look in looks if look.holds_for(question)]
    return tuple(sorted(path for path in unknown if any(look.meets(path) for look in looking)))


def _may_be(question: Mapping[str, Any], path: Path, constant: Any) -> bool:
    """Tell whether `constant` can stand at `path`: it does, or what stands there is not known."""
    node: Any = question
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return True
        node = node[name]
    return isinstance(node, dict | list) or (type(node) is type(constant) and node == constant)
