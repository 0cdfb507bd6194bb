"""What to write into a plane's own configuration, so that it asks here about everything and fails closed."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.domain._value import value
from gateway.domain.planes import Plane, PlaneKind, Reports

JWT: Final = "envoy.filters.http.jwt_authn"
KEY: Final = "KEY"
"""Stands where the plane's key has to be."""
_TYPES: Final = "type.googleapis.com/envoy.extensions"
_PATIENCE_S: Final = 300.0
"""With a server whose answers nobody here sees."""


@value
class Surroundings:
    """Where everything is that a plane has to know."""

    plane: Plane
    key: str
    douane: str
    """Where planes ask: `HOST:PORT`, or `unix:PATH`."""
    client_tls: bool
    """Whether it is asked there by TLS."""
    public_url: str
    servers: Mapping[str, str]
    """What the plane calls servers -> their URLs."""
    most_bytes: int


def envoy(around: Surroundings, listen: tuple[str, int]) -> Mapping[str, Any]:
    """Return a bootstrap of Envoy that has clients at `listen`, by one path for each server."""
    clusters = [_douane(around), _jwks(around)]
    clusters += [_cluster(f"server_{name}", url) for name, url in around.servers.items()]
    return {
        "static_resources": {
            "listeners": [
                {
                    "name": "mcp",
                    "address": _socket(*listen),
                    # A body that is larger is refused: none passes that was not judged whole.
                    "per_connection_buffer_limit_bytes": around.most_bytes,
                    "filter_chains": [{"filters": [_connection(around)]}],
                }
            ],
            "clusters": clusters,
        }
    }


def agentgateway(around: Surroundings, port: int) -> Mapping[str, Any]:
    """Return a configuration of agentgateway that has clients at `port`, `/mcp/SERVER` for each server."""
    routes = [_agents_route(around, name, url) for name, url in around.servers.items()]
    return {"binds": [{"port": port, "listeners": [{"routes": routes}]}]}


def _agents_route(around: Surroundings, name: str, url: str) -> Mapping[str, Any]:
    """Return the route to one server alone: lists of several would be merged under other names."""
    processor = {
        "kind": "remote",
        "host": around.douane,
        "failureMode": "failClosed",
        "methods": {"*": "full"},
        "metadata": {
            # All that the token says: one by one, nobody would know of what is not there.
            "claims": "jwt",
            # What the first question was answered with comes back with the second.
            "decision": "mcpGuardrails.decision",
        },
        "requestHeaders": {"allowed": ["mcp-protocol-version", "x-request-id"]},
        "policies": {
            "http": {"requestTimeout": _a_little_more(around.plane.deadline_s)},
            "backendAuth": {"key": around.key},
        },
    }
    return {
        "matches": [{"path": {"exact": f"/mcp/{name}"}}],
        "backends": [{"mcp": {"targets": [{"name": name, "mcp": {"host": url}}]}}],
        "policies": {
            "jwtAuth": {
                "mode": "strict",
                "issuer": around.plane.issuers[0],
                "audiences": [_audience(around, name)],
                "jwks": {"url": _jwks_url(around)},
            },
            "mcpGuardrails": {"processors": [processor]},
            "timeout": {"requestTimeout": _patience(around.plane)},
        },
    }


def _connection(around: Surroundings) -> Mapping[str, Any]:
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "mcp",
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "use_remote_address": True,
        # A client that sends slowly holds room here and a place there.
        "request_headers_timeout": "10s",
        "request_timeout": "30s",
        "route_config": {"virtual_hosts": [_host(around)]},
        "http_filters": [_tokens(around), _asks(around), _router()],
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}


def _host(around: Surroundings) -> Mapping[str, Any]:
    return {
        "name": "mcp",
        "domains": ["*"],
        "routes": [_route(around, name) for name in around.servers],
    }


def _route(around: Surroundings, name: str) -> Mapping[str, Any]:
    """Return the route to a server. It has the server's name, and sends nothing a second time."""
    path = urlsplit(around.servers[name]).path or "/"
    found: dict[str, Any] = {
        "name": name,
        "match": {"path": around.plane.path_of(name)},
        "route": {
            "cluster": f"server_{name}",
            "regex_rewrite": {"pattern": {"regex": ".*"}, "substitution": path},
            "auto_host_rewrite": True,
            "timeout": _patience(around.plane),
        },
    }
    if around.plane.kind is PlaneKind.EXT_AUTHZ:
        found["typed_per_filter_config"] = {
            "envoy.filters.http.ext_authz": {
                "@type": f"{_TYPES}.filters.http.ext_authz.v3.ExtAuthzPerRoute",
                "check_settings": {"context_extensions": {"server": name}},
            }
        }
    return found


def _tokens(around: Surroundings) -> Mapping[str, Any]:
    """Return the filter that verifies tokens, each good for one server, and sends none on."""
    providers = {
        name: {
            "issuer": around.plane.issuers[0],
            "audiences": [_audience(around, name)],
            "forward": False,
            "payload_in_metadata": "claims",
            "remote_jwks": {
                "http_uri": {"uri": _jwks_url(around), "cluster": "jwks", "timeout": "5s"},
                "cache_duration": "300s",
            },
        }
        for name in around.servers
    }
    rules = [
        {"match": {"path": around.plane.path_of(name)}, "requires": {"provider_name": name}}
        for name in around.servers
    ]
    return {
        "name": JWT,
        "typed_config": {
            "@type": f"{_TYPES}.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": providers,
            "rules": rules,
        },
    }


def _asks(around: Surroundings) -> Mapping[str, Any]:
    service = {
        "envoy_grpc": {"cluster_name": "douane"},
        "initial_metadata": [{"key": "authorization", "value": f"Bearer {around.key}"}],
    }
    if around.plane.kind is PlaneKind.EXT_AUTHZ:
        return _authz(around, service)
    return _proc(around, service)


def _authz(around: Surroundings, service: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "name": "envoy.filters.http.ext_authz",
        "typed_config": {
            "@type": f"{_TYPES}.filters.http.ext_authz.v3.ExtAuthz",
            "transport_api_version": "V3",
            "grpc_service": {**service, "timeout": _a_little_more(around.plane.deadline_s)},
            "failure_mode_allow": False,
            "status_on_error": {"code": "ServiceUnavailable"},
            "with_request_body": {
                "max_request_bytes": around.most_bytes,
                "allow_partial_message": False,
                "pack_as_bytes": True,
            },
            "encode_raw_headers": True,
            "metadata_context_namespaces": [JWT],
        },
    }


def _proc(around: Surroundings, service: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{_TYPES}.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": service,
            "failure_mode_allow": False,
            "observability_mode": False,
            "allow_mode_override": False,
            "message_timeout": _a_little_more(around.plane.deadline_s),
            "request_attributes": ["xds.route_name"],
            "metadata_options": {"forwarding_namespaces": {"untyped": [JWT]}},
            "processing_mode": {
                "request_header_mode": "SEND",
                "request_body_mode": "BUFFERED",
                "request_trailer_mode": "SKIP",
                "response_header_mode": "SEND",
                "response_body_mode": "BUFFERED",
                "response_trailer_mode": "SKIP",
            },
        },
    }


def _router() -> Mapping[str, Any]:
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"},
    }


def _douane(around: Surroundings) -> Mapping[str, Any]:
    options = f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions"
    host, _, port = around.douane.rpartition(":")
    pipe = {"pipe": {"path": around.douane.removeprefix("unix:")}}
    is_unix = around.douane.startswith("unix:")
    address = pipe if is_unix else _socket(host.strip("[]"), int(port))
    found = _at("douane", address)
    found["typed_extension_protocol_options"] = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": options,
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    if around.client_tls:
        found["transport_socket"] = _tls(host.strip("[]"))
    return found


def _jwks(around: Surroundings) -> Mapping[str, Any]:
    return _cluster("jwks", _jwks_url(around))


def _cluster(name: str, url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = _at(name, _socket(host, port))
    if parts.scheme == "https":
        found["transport_socket"] = _tls(host)
    return found


def _at(name: str, address: Mapping[str, Any]) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": address}}
    return {
        "name": name,
        "type": "STATIC" if "pipe" in address else "STRICT_DNS",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _tls(host: str) -> Mapping[str, Any]:
    authorities = "/etc/ssl/certs/ca-certificates.crt"
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": host,
            "auto_sni_san_validation": True,
            "common_tls_context": {"validation_context": {"trusted_ca": {"filename": authorities}}},
        },
    }


def _socket(host: str, port: int) -> Mapping[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _audience(around: Surroundings, name: str) -> str:
    return f"{around.public_url}/mcp/{around.plane.servers[name]}"


def _jwks_url(around: Surroundings) -> str:
    issuer = around.plane.issuers[0]
    ours = issuer == around.public_url
    return f"{issuer}/oauth/jwks.json" if ours else f"{issuer}/.well-known/jwks.json"


def _patience(plane: Plane) -> str:
    """Return how long a server has for its answer: one that comes when it counts as its worst is a no."""
    if plane.reports is Reports.NONE:
        return f"{_PATIENCE_S:.3f}s"
    return f"{max(plane.report_within_s - plane.deadline_s, plane.report_within_s / 2):.3f}s"


def _a_little_more(deadline_s: float) -> str:
    """Return the plane's own patience: whoever gives up first says no, and that has to be Douane."""
    return f"{deadline_s * 4 / 3:.3f}s"
