"""What hosts are shown of approved schemas: without keywords that they refuse and that only narrow.

What is left out here is left out of nothing else: calls and results are held to what was approved.
So what is shown takes everything that is approved, and more at most; where that cannot be seen at
once, it is what was approved.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.domain.bounded import remembered
from gateway.domain.document import Document
from gateway.domain.drafts import version_of
from gateway.pins.hosts import HOSTS, Keyword
from gateway.pins.nested import NAMED, leads_astray, matters, schemas_in

_NARROWING: Final = frozenset(
    {
        "$schema", "additionalProperties", "allOf", "anyOf", "const", "else", "exclusiveMinimum", "if",
        "multipleOf", "oneOf", "patternProperties", "propertyNames", "then", "uniqueItems",
    }
)  # fmt: skip
"""Keywords without which a schema takes what it took. `$ref`, `type` and `enum` are what it is about."""
TURNING: Final = frozenset(
    {
        "$dynamicRef", "$recursiveRef", "contains", "if", "not", "oneOf",
        "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords by which a schema may take less if one inside of it, or beside, takes more."""
_COUNTING: Final = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""Keywords about what no keyword beside them was about."""
_READ_ALIKE: Final = ("draft-06", "draft-07", "2019-09", "2020-12")
"""Versions of JSON Schema whose schemas say the same without their name, but for two spellings."""
_INSIDE: Final = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf")
_MOST: Final = 20_000
_OCTETS: Final = 16 * 1024**2


def shown_to(definition: Document, hosts: Sequence[str]) -> Mapping[str, Any]:
    """Return an approved definition as it is shown where `hosts` are to be able to take it."""
    return _shown_to(definition, hosts) if hosts else definition.content


def _by_digest(definition: Document, hosts: Sequence[str]) -> Hashable:
    return definition.digest, tuple(hosts)


@remembered(most=_MOST, octets=_OCTETS, key=_by_digest, weigh=lambda shown: 2 * len(repr(shown)))
def _shown_to(definition: Document, hosts: Sequence[str]) -> Mapping[str, Any]:
    content: Mapping[str, Any] = definition.content
    rules = [
        rule
        for host in hosts
        for rule in HOSTS[host].keywords
        if rule.level == "error" and _NARROWING.issuperset(rule.names)
    ]
    for member in ("inputSchema", "outputSchema"):
        schema = content.get(member)
        of_it = [rule for rule in rules if member in rule.schemas]
        if isinstance(schema, Mapping) and of_it:
            content = {**content, member: _wider(schema, of_it)}
    return content


def _wider(schema: Mapping[str, Any], rules: Collection[Keyword]) -> Mapping[str, Any]:
    """Return `schema` without what `rules` are about, where what is left takes no less."""
    whole = [one for _, one in schemas_in(schema, "")]
    if any("const" in one for one in whole) and not all(map(version_of, whole)):
        return schema  # to some of it `const` means nothing, and the `enum` in its place would
    kept = _without(schema, rules)
    if "$schema" in schema and "$schema" not in kept and not _says_the_same(schema):
        kept = {"$schema": schema["$schema"], **kept}
    inner = [one for _, one in schemas_in(kept, "")]
    turns = any(not TURNING.isdisjoint(one) or leads_astray(one) for one in inner)
    refers = any("$ref" in one for one in inner)
    if not _COUNTING.isdisjoint(schema) or (turns and refers):
        return schema
    return kept if turns else _inside(kept, [rule for rule in rules if not rule.root])


def _without(schema: Mapping[str, Any], rules: Iterable[Keyword]) -> dict[str, Any]:
    """Return one schema, and not those inside of it, without what `rules` are about."""
    gone = {
        name
        for rule in rules
        for name in rule.names
        if name in schema and matters(rule, schema[name])
    }
    if "patternProperties" in gone:
        # It says of what it does not name, and would say it of what the other one named.
        gone.add("additionalProperties")
    kept = {name: content for name, content in schema.items() if name not in gone}
    if "const" in gone and isinstance(schema["const"], str):
        kept.setdefault("enum", [schema["const"]])
    return kept


def _inside(schema: Mapping[str, Any], rules: Collection[Keyword]) -> dict[str, Any]:
    """Return `schema` with all those inside of it without what `rules` are about."""
    shown = dict(schema)
    for name in NAMED:
        if isinstance(named := shown.get(name), Mapping):
            shown[name] = {own: _each(inner, rules) for own, inner in named.items()}
    for name in _INSIDE:
        if name in shown:
            shown[name] = _each(shown[name], rules)
    return shown


def _each(schema: Any, rules: Collection[Keyword]) -> Any:
    if isinstance(schema, list | tuple):
        return [_each(inner, rules) for inner in schema]
    if isinstance(schema, Mapping):
        return _inside(_without(schema, rules), rules)
    return schema


def _says_the_same(schema: Mapping[str, Any]) -> bool:
    """Whether `schema` says the same where its version is not named, which is then the newest."""
    version = str(schema["$schema"])
    if not any(known in version for known in _READ_ALIKE):
        return False
    if _READ_ALIKE[-1] in version:
        return True
    # A list under `items` has another name since, and what stands beside `$ref` counts.
    return not any(
        isinstance(inner.get("items"), list | tuple) or ("$ref" in inner and len(inner) > 1)
        for _, inner in schemas_in(schema, "")
    )
