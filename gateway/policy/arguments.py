"""Names of arguments in rules that no approved definition has: a rule of one never holds.

The input's schema leaves arguments open, because servers choose them. What people approved says which
there are.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.domain._value import value
from gateway.policy.lint import EQUALS, Module, like, line_of, name_of, walk

_ARGUMENTS: Final = ("input", "arguments")
_MEMBER: Final = ("internal", "member_2")
_OF_OTHERS: Final = frozenset(
    {"messages", "modelPreferences", "systemPrompt", "includeContext", "temperature", "maxTokens"}
    | {"stopSequences", "metadata", "tools", "toolChoice", "message", "requestedSchema", "mode"}
    | {"url", "elicitationId", "task", "uri", "ref", "argument", "context"}
)
"""What the protocol itself names in requests of servers, and of targets that are no tools."""


@value
class Takes:
    """What one approved definition says of its arguments."""

    server: str
    name: str
    arguments: frozenset[str]
    """Empty where it says nothing: then there may be any."""
    required: frozenset[str] = frozenset()
    """Without which no call of it is sent."""

    @classmethod
    def of(cls, server: str, name: str, definition: Mapping[str, Any]) -> "Takes":
        """Read a tool's definition, or a prompt's."""
        prompt = definition.get("arguments")
        named = {one["name"] for one in prompt or () if isinstance(one, dict) and "name" in one}
        return cls(
            server=server,
            name=name,
            arguments=frozenset(map(str, named)) | _named(definition.get("inputSchema")),
            required=_required(definition),
        )


def _required(definition: Mapping[str, Any]) -> frozenset[str]:
    prompt, schema = definition.get("arguments"), definition.get("inputSchema")
    told = schema.get("required") if isinstance(schema, dict) else None
    always = [one for one in told if isinstance(one, str)] if isinstance(told, list) else []
    of_prompt = [
        one for one in prompt or () if isinstance(one, dict) and one.get("required") is True
    ]
    return frozenset((*always, *(str(one.get("name")) for one in of_prompt)))


def _named(schema: Any) -> frozenset[str]:
    """Return every property that a schema names, at whatever depth: it may be put together."""
    if isinstance(schema, list):
        return frozenset().union(*map(_named, schema))
    if not isinstance(schema, dict):
        return frozenset()
    own = schema.get("properties")
    found = frozenset(map(str, own)) if isinstance(own, dict) else frozenset()
    return found.union(*map(_named, schema.values()))


def misnamed(modules: Sequence[Module], approved: Sequence[Takes]) -> list[str]:
    """Return what is wrong with `modules`, each as `file:line: text`; nothing if nothing is approved."""
    found = []
    for module in modules if approved else ():
        aliases = aliases_in(module)
        for rule in module.tree.get("rules", []):
            known = _known(rule, approved)
            if known is None:
                continue
            for name, line in _arguments(rule, aliases):
                if name not in known:
                    text = f"no approved definition has an argument {name}"
                    found.append(f"{module.path}:{line}: {text}{like(name, known)}")
    return list(dict.fromkeys(found))


def _known(rule: Mapping[str, Any], approved: Sequence[Takes]) -> frozenset[str] | None:
    """Return the arguments that there are where `rule` holds; `None` where nobody can say."""
    if (kinds := limited(rule, "kind")) is not None and "tool" not in kinds:
        return None
    names, meant = limited(rule, "name"), meant_by(rule, approved)
    if not meant or (names is not None and not all(one.arguments for one in meant)):
        return None
    return frozenset().union(_OF_OTHERS, *(one.arguments for one in meant))


def meant_by(rule: Mapping[str, Any], approved: Sequence[Takes]) -> Sequence[Takes]:
    """Return the definitions that `rule` can be about."""
    servers, names = limited(rule, "server"), limited(rule, "name")
    return [
        one
        for one in approved
        if (servers is None or one.server in servers) and (names is None or one.name in names)
    ]


def limited(rule: Mapping[str, Any], member: str) -> frozenset[str] | None:
    """Return the words that `input.target.{member}` is one of where `rule` holds."""
    return next((words for words, _ in limits(rule, member)), None)


def limits(rule: Mapping[str, Any], member: str) -> Iterator[tuple[frozenset[str] | None, int]]:
    """Yield each list of words that `rule` wants `input.target.{member}` to be one of, with its line.

    `None` where the words are not written there.
    """
    for expression in rule.get("body", []):
        terms = expression.get("terms")
        if expression.get("negated") or not isinstance(terms, list) or len(terms) != 3:  # noqa: PLR2004 - f(a, b)
            continue
        operator, *sides = terms
        called = tuple(part.get("value") for part in operator.get("value", ()) if part)
        if (len(called) == 1 and called[0] not in EQUALS) or (
            len(called) > 1 and called != _MEMBER
        ):
            continue
        named = [name_of(side) == ("input", "target", member) for side in sides]
        if any(named):
            yield _words(sides[0] if named[1] else sides[1]), line_of(expression)


def _words(term: Mapping[str, Any]) -> frozenset[str] | None:
    match term.get("type"):
        case "string":
            return frozenset({str(term["value"])})
        case "set" | "array" if all(one.get("type") == "string" for one in term["value"]):
            return frozenset(str(one["value"]) for one in term["value"])
        case _:
            return None


def _arguments(rule: Mapping[str, Any], aliases: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield each argument that `rule` names, with its line: as a member, and by `object.get`."""
    own = called_arguments(rule, aliases)
    yield from members(rule, own)
    for node in walk(rule):
        if node.get("type") == "call":
            yield from _got(node["value"], own, line_of(node))


def aliases_in(module: Module) -> Collection[str]:
    """Return the rules of a module that are another name of the arguments."""
    return {head for head, of in _assigned_heads(module) if of == _ARGUMENTS}


def called_arguments(rule: Mapping[str, Any], aliases: Collection[str]) -> Collection[str]:
    """Return all that the arguments are called in `rule`."""
    return {*aliases, *(head for head, of in _assigned(rule) if of == _ARGUMENTS)}


def members(tree: Any, own: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield each member of the arguments that stands in `tree`, with its line."""
    for node in walk(tree):
        name = name_of(node)
        if name[:2] == _ARGUMENTS:
            name = ("arguments", *name[2:])
        elif not name or name[0] not in own:
            name = ()
        if len(name) > 1:
            yield name[1], line_of(node)


def _got(
    call: Sequence[Mapping[str, Any]], own: Collection[str], line: int
) -> Iterator[tuple[str, int]]:
    if name_of(call[0]) != ("object", "get") or len(call) < 3:  # noqa: PLR2004 - the object and the key
        return
    of = name_of(call[1]) or ((str(call[1].get("value")),) if call[1].get("type") == "var" else ())
    if of != _ARGUMENTS and not (len(of) == 1 and of[0] in own):
        return
    key = call[2]
    if key.get("type") == "array" and key["value"]:
        key = key["value"][0]
    if key.get("type") == "string":
        yield str(key["value"]), line_of(key) or line


def _assigned(rule: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each variable that is called something else, and what."""
    for node in walk(rule.get("body", [])):
        terms = node.get("terms")
        if isinstance(terms, list) and len(terms) == 3:  # noqa: PLR2004 - f(a, b)
            operator, left, right = terms
            called = {part.get("value") for part in operator.get("value", ()) if part}
            if called & EQUALS and left.get("type") == "var":
                yield str(left["value"]), name_of(right)


def _assigned_heads(module: Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    for rule in module.tree.get("rules", []):
        head = rule["head"]
        yield str(head.get("name", "")), name_of(head.get("value") or {})
