"""Servers and tools named in rules and in `access` that are not there: such a line never holds.

A misspelled name in an equation makes a rule that says nothing, and one in `access` closes nothing.
What is configured says which servers there are, and what was seen of each, which tools.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.domain._value import value
from gateway.domain.quotas import Quota
from gateway.domain.tools import OWN
from gateway.policy.arguments import Takes, limited, limits
from gateway.policy.lint import Module, like

_ANY = "*"


@value
class Known:
    """What there is to be named."""

    servers: frozenset[str] = frozenset()
    """Those configured; the gateway's own has no name."""
    seen: tuple[tuple[str, str], ...] = ()
    """Each server, and what it has shown: tools, prompts, resources, approved or not."""
    approved: tuple[Takes, ...] = ()
    quotas: tuple[Quota, ...] = ()
    classes: frozenset[str] = frozenset()
    """Of sensitive data, and their groups; of none, nobody said which there are."""

    def names(self, servers: frozenset[str]) -> frozenset[str] | None:
        """Return what `servers` have shown; `None` if one of them has shown nothing yet."""
        of = {server: {name for one, name in self.seen if one == server} for server in servers}
        return frozenset().union(*of.values()) if all(of.values()) else None


def absent(modules: Sequence[Module], known: Known) -> list[str]:
    """Return what `modules` name that is not there, each as `file:line: text`."""
    found = []
    for module in modules:
        for rule in module.tree.get("rules", []):
            found += [f"{module.path}:{line}: {text}" for text, line in _of_rule(rule, known)]
    return list(dict.fromkeys(found))


def _of_rule(rule: Mapping[str, Any], known: Known) -> Iterator[tuple[str, int]]:
    for words, line in limits(rule, "server"):
        yield from ((text, line) for text in _servers(words or (), known))
    servers = limited(rule, "server")
    for words, line in limits(rule, "name"):
        yield from ((text, line) for text in _names(words or (), servers, known))


def absent_in_access(access: Any, known: Known) -> list[str]:
    """Return what `access` of the policy's data names that is not there."""
    if not isinstance(access, dict):
        return []
    only, deny = access.get("only"), access.get("deny")
    found = [
        f"data.douane.access.only: {text}"
        for text in _servers(only if isinstance(only, dict) else (), known)
    ]
    for place, entry in enumerate(deny if isinstance(deny, list) else ()):
        where = f"data.douane.access.deny[{place}]"
        found += [f"{where}: {text}" for text in _of_entry(entry, known)]
    return found


def absent_in_quotas(quotas: Any, known: Known) -> list[str]:
    """Return what quotas, and `quotas` of the policy's data, name that is not there."""
    found = []
    for quota in known.quotas:
        of = quota.servers or None
        told = [*_servers(quota.servers, known), *_names(quota.tools, of, known)]
        found += [f"limits.quotas: {quota.name}: {text}" for text in told]
    named = quotas.get("ask") if isinstance(quotas, dict) else None
    names = frozenset(quota.name for quota in known.quotas)
    for word in named if isinstance(named, list) else ():
        if isinstance(word, str) and word not in names | {_ANY}:
            found.append(f"data.douane.quotas.ask: no quota is called {word}{like(word, names)}")
    return found


def _of_entry(entry: Any, known: Known) -> Iterator[str]:
    if not isinstance(entry, dict):
        return
    server, tool = entry.get("server"), entry.get("tool")
    named = isinstance(server, str) and server != _ANY
    if named:
        yield from _servers((server,), known)
    if isinstance(tool, str) and tool != _ANY:
        yield from _names((tool,), frozenset({str(server)}) if named else None, known)


def _servers(words: Any, known: Known) -> Iterator[str]:
    there = known.servers | {OWN}
    for word in sorted(set(words) - there):
        yield f"no server is called {word}{like(word, known.servers)}"


def _names(words: Any, servers: frozenset[str] | None, known: Known) -> Iterator[str]:
    meant = known.servers | {OWN} if servers is None else servers & (known.servers | {OWN})
    names = known.names(meant) if meant else None
    for word in sorted(set(words) - names) if names is not None else ():
        said = f"called {word}{like(word, names or ())}"
        of = "" if servers is None else " or ".join(one or "the gateway" for one in sorted(servers))
        yield f"{of} has shown nothing {said}" if of else f"no server has shown anything {said}"
