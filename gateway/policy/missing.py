"""Rules that say `not` of what may not be there: OPA makes nothing of them, and says so to nobody."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.policy.arguments import Takes, aliases_in, called_arguments, meant_by, members
from gateway.policy.lint import EQUALS, Module, line_of, walk


def maybe_missing(modules: Sequence[Module], approved: Sequence[Takes]) -> list[str]:
    """Return where `not` is said of something made of an argument that a call may do without.

    OPA looks the argument up before it says `not` (all but `==` of the argument itself): where there is none,
    the line is undefined and its rule says nothing. A line beside it that names the argument asks whether it
    is there.
    """
    found = []
    for module in modules:
        aliases = aliases_in(module)
        for rule in module.tree.get("rules", []):
            own, always = called_arguments(rule, aliases), _always(rule, approved)
            body = rule.get("body", [])
            asked = {
                name
                for one in body
                if not one.get("negated")
                for name, _ in members(one.get("terms"), own)
            }
            for one in (node for node in walk(body) if node.get("negated")):
                for name, line in members(_looked_up(one["terms"]), own):
                    if name not in asked | always:
                        found.append(f"{module.path}:{line or line_of(one)}: {_missing(name)}")
    return list(dict.fromkeys(found))


def _missing(name: str) -> str:
    return (
        f"a call may have no argument {name}, and then `not` of what is made of it is never true: ask "
        f'object.get(input.arguments, "{name}", ""), or have a rule for `not input.arguments.{name}` as well'
    )


def _always(rule: Mapping[str, Any], approved: Sequence[Takes]) -> frozenset[str]:
    """Return the arguments without which nothing is called that `rule` can be about."""
    meant = [one.required for one in meant_by(rule, approved)]
    return frozenset.intersection(*meant) if meant else frozenset()


def _looked_up(terms: Any) -> Any:
    """Return what of a negated line is looked up before it: all but what is compared as it stands."""
    if isinstance(terms, dict):
        return terms["value"][1:] if terms.get("type") == "ref" else terms
    operator, *sides = terms
    called = {part.get("value") for part in operator.get("value", ()) if part}
    return [one for one in sides if one.get("type") != "ref"] if called & EQUALS else sides
