"""What can be wrong with a policy that compiles: found in the syntax tree that OPA gives."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from gateway.domain._value import value
from gateway.domain.decisions import Phase
from gateway.policy.schema import ABSENT

EQUALS = frozenset({"equal", "eq", "assign"})
_RESERVED = (("data", "douane", "config"), ("data", "system"))
"""What the gateway itself puts beside a policy."""


@value
class Module:
    """One Rego file as OPA parsed it."""

    path: str
    tree: Mapping[str, Any]

    @property
    def package(self) -> tuple[str, ...]:
        """`("data", "douane")`."""
        return tuple(str(part["value"]) for part in self.tree["package"]["path"])


def defines(modules: Iterable[Module], rule: str) -> bool:
    """Tell whether a file says what `data.douane.{rule}` is."""
    wanted = ("data", "douane", rule)
    return any(name[: len(wanted)] == wanted for module in modules for name, _ in _rules(module))


def heads(module: Module) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the full name of each rule of `module`, with its line."""
    for name, rule in _rules(module):
        yield name, line_of(rule)


def problems(modules: Iterable[Module]) -> list[str]:
    """Return what is wrong, each as `file:line: text`."""
    found = []
    for module in modules:
        for name, rule in _rules(module):
            where = f"{module.path}:{line_of(rule)}"
            found += [
                f"{where}: {'.'.join(taken)} belongs to the gateway"
                for taken in _RESERVED
                if name[: len(taken)] == taken
            ]
            found += [f"{module.path}:{line}: {text}" for line, text in _of_phase(rule)]
    return found


def _rules(module: Module) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for rule in module.tree.get("rules", []):
        head = rule["head"].get("ref") or [{"value": rule["head"].get("name", "")}]
        yield (*module.package, *(str(part["value"]) for part in head)), rule


def _of_phase(rule: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Find members of the input that the phase which the rule is for never has."""
    branch: Mapping[str, Any] | None = rule
    while branch is not None:
        body = [expression for expression in branch.get("body", []) if isinstance(expression, dict)]
        for phase in filter(None, map(_phase_of, body)):
            if phase not in Phase.__members__.values():
                yield line_of(rule), f"there is no phase {phase}"
                continue
            for ref, line in _refs((branch.get("head"), body)):
                if ref[:1] == ("input",) and set(ref[1:2]) & ABSENT[Phase(phase)]:
                    yield line, f"{'.'.join(ref[:2])} is never there in phase {phase}"
        branch = branch.get("else")


def _phase_of(expression: Mapping[str, Any]) -> str | None:
    """Return `list` for an expression that holds only in that phase: `input.phase == "list"`."""
    terms = expression.get("terms")
    if expression.get("negated") or not isinstance(terms, list) or len(terms) != 3:  # noqa: PLR2004 - f(a, b)
        return None
    operator, *sides = terms
    if not EQUALS & {part.get("value") for part in operator.get("value", []) if part}:
        return None
    if not any(name_of(side) == ("input", "phase") for side in sides):
        return None
    return next((str(side["value"]) for side in sides if side.get("type") == "string"), None)


def places(modules: Iterable[Module], function: str) -> list[str]:
    """Return `file:line` of everything that calls the built-in `function`."""
    wanted = tuple(function.split("."))
    return [
        f"{module.path}:{line}"
        for module in modules
        for ref, line in _refs(module.tree)
        if ref == wanted
    ]


def _refs(node: Any) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield every reference below `node`, up to its first part that is not a name."""
    for one in walk(node):
        if name := name_of(one):
            yield name, line_of(one)


def walk(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object of a syntax tree, from the outside in."""
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from walk(inner)
    elif isinstance(node, list | tuple):
        for inner in node:
            yield from walk(inner)


def name_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of a reference up to its first that is not a name; none, if it is no reference."""
    if node.get("type") != "ref":
        return ()
    parts: list[str] = []
    for part in node["value"]:
        if part.get("type") != ("string" if parts else "var"):
            break
        parts.append(str(part["value"]))
    return tuple(parts)


def line_of(node: Mapping[str, Any]) -> int:
    """Return the line on which `node` begins; 0 if the tree does not say."""
    return int(node.get("location", {}).get("row", 0))


def like(name: str, known: Collection[str]) -> str:
    """Return a question after the known name that is most like this one; empty if none is."""
    close = get_close_matches(name, sorted(known), n=1)
    return f"; is {close[0]} meant?" if close else ""
