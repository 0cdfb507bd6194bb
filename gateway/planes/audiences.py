"""Tokens that a plane's own configuration takes at more servers than one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from gateway.planes.envoy_checks import MANAGER, TOKENS, asks, spelled, spelt
from gateway.planes.parts import Found, listed_in, part_of, parts_in, type_of, within

_ROUTE: Final = "envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig"
_BEGINS: Final = ("prefix", "path_separated_prefix")
_HOST: Final = "auto_host_rewrite"
_MOST_TOLD: Final = 5

Taken: TypeAlias = tuple[tuple[str, str], str, Any]
"""An issuer and an audience, the server at which such tokens are good, and where that is."""


def shared(taken: Iterable[Taken]) -> Iterator[str]:
    """Yield which tokens are good at several servers: at several places, which have several names."""
    known = defaultdict[tuple[str, str], set[tuple[str, str]]](set)
    for key, server, place in taken:
        known[key].add((server, repr(place)))
    for (issuer, audience), places in known.items():
        names = sorted({server for server, _ in places})
        if len(names) > 1 and len({place for _, place in places}) > 1:
            told = ", ".join(names[:_MOST_TOLD])
            yield (
                f"audiences: a token of {issuer} for {audience} is good at {told}; "
                "write another audience for each"
            )


def taken_by_envoy(content: Any) -> Iterator[Taken]:
    """Yield where tokens are good, of all chains that ask, by the routes that stand in `content`."""
    for chain in within(spelled(content)):
        if type_of(chain) == MANAGER and asks(chain):
            filters = [one for one in within(chain.get("http_filters")) if type_of(one) == TOKENS]
            for route, *around in _routes(chain):
                for tokens in filters:
                    for requires in _required(tokens, route, around):
                        for key in _wanted(tokens, requires):
                            yield key, _server(route), _place(route)


def _routes(chain: Found) -> Iterator[tuple[Found, Found, Found]]:
    """Yield each route to a server with what is around it, the nearest first."""
    for config in within({key: one for key, one in chain.items() if key != "http_filters"}):
        for host in parts_in(config, "virtual_hosts"):
            for route in parts_in(host, "routes"):
                if part_of(route, "route"):
                    yield route, host, config


def _server(route: Found) -> str:
    """Return what Douane is told that the server is called."""
    said = (part_of(one, "context_extensions").get("server") for one in within(route))
    return str(next((one for one in said if one), route.get("name") or "one without a name"))


def _place(route: Found) -> Any:
    action = part_of(route, "route")
    path = {key: one for key, one in action.items() if "rewrite" in key and key != _HOST}
    return action.get("cluster"), action.get("weighted_clusters"), path or route.get("match")


def _required(tokens: Found, route: Found, around: Iterable[Found]) -> Iterator[Any]:
    """Yield what may be required of a request by `route`: by itself, or by each rule up to a sure one."""
    named = part_of(tokens, "requirement_map")
    for one in (route, *around):
        for own in part_of(one, "typed_per_filter_config").values():
            if isinstance(own, dict) and type_of(own) == _ROUTE:
                yield named.get(spelt(str(own.get("requirement_name"))))
                return
    match = part_of(route, "match")
    for rule in parts_in(tokens, "rules"):
        ours = part_of(rule, "match")
        if _may_fit(ours, match):
            yield rule.get("requires") or named.get(spelt(str(rule.get("requirement_name"))))
        if _surely_fits(ours, match):
            return


def _may_fit(rule: Found, route: Found) -> bool:
    (begins, ours), (their_begins, theirs) = _begin(rule), _begin(route)
    return (ours.startswith(theirs) and (their_begins or ours == theirs)) or (
        begins and theirs.startswith(ours)
    )


def _begin(match: Found) -> tuple[bool, str]:
    """Return how the paths begin that `match` fits, in small letters, and whether they go on."""
    if isinstance(path := match.get("path"), str):
        return False, path.lower()
    found = (one for key in _BEGINS if isinstance(one := match.get(key), str))
    return True, next(found, "").lower()


def _surely_fits(rule: Found, route: Found) -> bool:
    if rule.keys() - {"path", "prefix"} or route.get("case_sensitive") is False:
        return False
    theirs = [one for key in ("path", *_BEGINS) if isinstance(one := route.get(key), str)]
    if isinstance(prefix := rule.get("prefix"), str):
        return prefix == "/" or any(one.startswith(prefix) for one in theirs)
    return "path" in rule and rule["path"] == route.get("path")


def _wanted(tokens: Found, requires: Any) -> Iterator[tuple[str, str]]:
    """Yield whose tokens, for whom, `requires` takes of those that Douane is told of."""
    for one in within(requires):
        provider = part_of(part_of(tokens, "providers"), spelt(str(one.get("provider_name"))))
        if provider.get("payload_in_metadata") == "claims":
            for audience in listed_in(one, "audiences") or listed_in(provider, "audiences"):
                yield str(provider.get("issuer", "anybody")), str(audience)
