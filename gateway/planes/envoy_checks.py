"""What an Envoy's configuration says that would let something pass unjudged."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.planes.configs import JWT
from gateway.planes.parts import Found, is_for_one, listed_in, part_of, parts_in, type_of, within

_PROC: Final = "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor"
_AUTHZ: Final = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
_KINDS: Final = frozenset({_PROC, _AUTHZ})
MANAGER: Final = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
TOKENS: Final = "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication"
_TCP: Final = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
_PROC_ROUTE: Final = "envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
_AUTHZ_ROUTE: Final = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute"
_WRAPPED: Final = "envoy.config.route.v3.FilterConfig"
_ROUTE: Final = "xds.route_name"
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_PROC_LESS: Final = {
    "mutation_rules": "what Douane takes out of a head may stay in it",
    "forward_rules": "not each header is shown",
}
_AUTHZ_LESS: Final = {
    "filter_enabled": "only some requests are asked about",
    "filter_enabled_metadata": "only some requests are asked about",
    "allowed_headers": "not each header is shown",
    "disallowed_headers": "not each header is shown",
    "decoder_header_mutation_rules": "what Douane takes out of a head may stay in it",
}
_WHOLE: Final = frozenset({".*", "^.*$"})
_SENT_AGAIN: Final = ("retry_policy", "retry_policy_typed_config", "hedge_policy")
_ELSEWHERE: Final = ("rds", "scoped_routes", "cluster_header", "cluster_specifier_plugin")
"""Where a route leads to what stands in no file."""


def asked_in(content: Any) -> Sequence[Found]:
    """Return each filter that asks Douane, wherever it stands."""
    return [one for one in within(spelled(content)) if type_of(one) in _KINDS]


def spelled(content: Any) -> Any:
    """Return `content` with its members spelled in one way: protobuf takes `aName` for `a_name`."""
    if isinstance(content, Mapping):
        return {
            spelt(name) if isinstance(name, str) else name: spelled(one)
            for name, one in content.items()
        }
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [spelled(one) for one in content]
    return content


def spelt(name: str) -> str:
    return name if "." in name else _CAPITAL.sub(r"_\1", name).lower()


def problems_of_envoy(content: Any) -> Iterator[str]:
    """Yield what is wrong, each with what to do."""
    content = spelled(content)
    for one in within(content):
        if type_of(one) in _KINDS:
            yield from _filter(one)
    yield from _managers(content)
    for one in within(content):
        yield from _route(one)
        yield from _around(one)
        if type_of(one) == TOKENS:
            yield from _audiences(one)
    if not any(one.get("payload_in_metadata") == "claims" for one in within(content)):
        yield "payload_in_metadata: who calls is not told; write claims"


def _filter(found: Found) -> Iterator[str]:
    if found.get("failure_mode_allow"):
        yield "failure_mode_allow: everything passes while Douane is away; write false"
    if type_of(found) == _AUTHZ:
        yield from _authz(found)
    else:
        yield from _proc(found)


def _authz(found: Found) -> Iterator[str]:
    body = part_of(found, "with_request_body")
    if not body.get("max_request_bytes"):
        yield "with_request_body: no body is shown, so every call is a no; write max_request_bytes"
    elif not body.get("pack_as_bytes"):
        yield "pack_as_bytes: bodies are not shown as they came, so every call is a no; write true"
    if body.get("allow_partial_message"):
        yield "allow_partial_message: bodies are cut, and each such call is a no; write false"
    if not found.get("encode_raw_headers"):
        yield "encode_raw_headers: not each header is shown, so every call is a no; write true"
    if JWT not in listed_in(found, "metadata_context_namespaces"):
        yield f"metadata_context_namespaces: who calls is not told; write [{JWT}]"
    for key in found.keys() & _AUTHZ_LESS.keys():
        yield f"{key}: {_AUTHZ_LESS[key]}; take it out"


def _proc(found: Found) -> Iterator[str]:
    modes = part_of(found, "processing_mode")
    for key in ("request_body_mode", "response_body_mode"):
        if modes.get(key) != "BUFFERED":
            yield f"{key}: bodies are not shown whole; write BUFFERED"
    for key in ("request_header_mode", "response_header_mode"):
        if modes.get(key) == "SKIP":
            yield f"{key}: heads are not shown; write SEND"
    for key in ("observability_mode", "allow_mode_override", "disable_immediate_response"):
        if found.get(key):
            yield f"{key}: what Douane answers does not count; write false"
    for key in found.keys() & _PROC_LESS.keys():
        yield f"{key}: {_PROC_LESS[key]}; take it out"
    if _ROUTE not in listed_in(found, "request_attributes"):
        yield f"request_attributes: whose tools they are is not told; write [{_ROUTE}]"
    options = part_of(part_of(found, "metadata_options"), "forwarding_namespaces")
    if JWT not in listed_in(options, "untyped"):
        yield f"metadata_options: who calls is not told; forward {JWT}"


def _audiences(tokens: Found) -> Iterator[str]:
    """Yield which tokens that Douane is told of are good at more servers than one."""
    apart = [
        one["provider_and_audiences"]
        for one in within(tokens)
        if isinstance(one.get("provider_and_audiences"), Mapping)
    ]
    wanted = [one for one in within(tokens) if "provider_name" in one and one not in apart]
    by_itself = {spelt(str(one["provider_name"])) for one in wanted}
    providers = part_of(tokens, "providers")
    for name in providers:
        provider = part_of(providers, name)
        if provider.get("payload_in_metadata") != "claims":
            continue
        ours = [one for one in apart if spelt(str(one.get("provider_name"))) == name]
        counting = ours if ours and name not in by_itself else [provider, *ours]
        if not all(is_for_one(one) for one in counting):
            yield f"audiences: a token for another server is good by {name}; write the one of its server"


def _managers(content: Any) -> Iterator[str]:
    """Yield what leads past the filter: a chain without it, or one in which it is not always asked."""
    chains = [one for one in within(content) if type_of(one) in {MANAGER, _TCP}]
    addresses = _addresses(content)
    guarded: set[str] = set()
    for one in filter(asks, chains):
        guarded |= _leads_to(one, addresses)
        yield from _loose(one)
    for one in chains:
        yield from _unsure(one)
        if asks(one):
            continue
        leads = _leads_to(one, addresses)
        is_elsewhere = any(key in part for part in within(one) for key in _ELSEWHERE)
        if is_elsewhere or leads & guarded or not guarded:
            name = one.get("stat_prefix") or "one"
            yield f"listeners: {name} asks nobody, and leads to the same servers; add the filter"


def asks(chain: Found) -> bool:
    """Whether everything that comes by `chain` is asked about."""
    return any(
        type_of(part_of(one, "typed_config")) in _KINDS and not one.get("disabled")
        for one in parts_in(chain, "http_filters")
    )


def _unsure(chain: Found) -> Iterator[str]:
    for one in parts_in(chain, "http_filters"):
        config = part_of(one, "typed_config")
        inside = [part for part in within(config) if type_of(part) in _KINDS]
        if not inside:
            continue
        if one.get("disabled"):
            yield "disabled: the filter is off unless a route puts it on; take it out"
        if one.get("is_optional"):
            yield "is_optional: an Envoy that does not know the filter goes on without; take it out"
        if inside[0] is not config:
            yield "http_filters: the filter is asked where something matches; write it by itself"


def _loose(chain: Found) -> Iterator[str]:
    """Yield which routes of `chain` have clients write what goes on beside a call, and nobody judges."""
    ignores = any(one.get("ignore_path_parameters_in_path_matching") for one in within(chain))
    for one in within({key: part for key, part in chain.items() if key != "http_filters"}):
        match, route = one.get("match"), one.get("route")
        if not (isinstance(match, Mapping) and isinstance(route, Mapping)):
            continue
        name = one.get("name") or "one without a name"
        if not _is_rewritten(route) and (ignores or not _is_one_path(match)):
            yield f"routes: what clients write in the path goes on by {name}; match it by path alone"
        if not (route.get("auto_host_rewrite") or route.get("host_rewrite_literal")):
            yield f"auto_host_rewrite: the Host that clients write goes on by {name}; write true"


def _is_one_path(match: Found) -> bool:
    return isinstance(match.get("path"), str) and match.get("case_sensitive") is not False


def _is_rewritten(route: Found) -> bool:
    """Whether each path becomes the same one."""
    rewrite = route.get("regex_rewrite")
    if not isinstance(rewrite, Mapping):
        return False
    pattern = rewrite.get("pattern")
    whole = isinstance(pattern, Mapping) and str(pattern.get("regex")) in _WHOLE
    return whole and "\\" not in str(rewrite.get("substitution"))


def _addresses(content: Any) -> Mapping[str, frozenset[str]]:
    """Return what the clusters of these names lead to."""
    return {
        str(one.get("name")): frozenset(
            f"{at.get('address')}:{at.get('port_value')}"
            for part in within(one["load_assignment"])
            if isinstance(at := part.get("socket_address"), Mapping)
        )
        for one in within(content)
        if "load_assignment" in one
    }


def _leads_to(chain: Found, addresses: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the clusters that `chain` leads to, and their addresses."""
    routes = {key: one for key, one in chain.items() if key != "http_filters"}
    names = {str(part["cluster"]) for part in within(routes) if "cluster" in part}
    for part in within(routes):
        weighted = part_of(part, "weighted_clusters")
        names |= {str(one.get("name")) for one in parts_in(weighted, "clusters")}
    return names.union(*(addresses.get(name, frozenset()) for name in names))


def _route(found: Found) -> Iterator[str]:
    """Yield what a route, or what is around it, says of the filter otherwise."""
    kind = type_of(found)
    if kind in {_PROC_ROUTE, _AUTHZ_ROUTE} and found.get("disabled"):
        yield "disabled: a route asks about nothing; take it out"
    if kind == _PROC_ROUTE and "overrides" in found:
        yield "overrides: a route is asked about otherwise; take it out"
    if kind == _AUTHZ_ROUTE and part_of(found, "check_settings").keys() - {"context_extensions"}:
        yield "check_settings: a route is asked about otherwise; leave context_extensions alone"
    if kind == _WRAPPED and found.get("disabled"):
        yield "disabled: a route puts a filter off; take it out"
    for name, one in part_of(found, "typed_per_filter_config").items():
        inside = {type_of(part) for part in within(one)}
        if "ext_" in str(name) and not inside & {_PROC_ROUTE, _AUTHZ_ROUTE, _WRAPPED}:
            yield f"typed_per_filter_config: what {name} says there is not known; take it out"


def _around(found: Found) -> Iterator[str]:
    for key in _SENT_AGAIN:
        if key in found:
            yield f"{key}: a call that was decided on once is sent again; take it out"
    if found.get("request_mirror_policies"):
        yield "request_mirror_policies: a call is sent to another server too; take it out"
