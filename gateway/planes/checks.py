"""What a plane's own configuration says that would let something pass unjudged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.planes.configs import JWT

Found = Mapping[str, Any]

_PROC: Final = "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor"
_AUTHZ: Final = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
_OVERRIDES: Final = (".ext_proc.v3.ExtProcPerRoute", ".ext_authz.v3.ExtAuthzPerRoute")
_ROUTE: Final = "xds.route_name"
_ASKED_ABOUT: Final = (
    "tools/call",
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
)
"""What a client can do by agentgateway, and what that asks about."""
_FORWARDED: Final = (
    ("claims", "jwt", "`scope` and `cnf` of a token are not seen, so every call is a no"),
    (
        "decision",
        "mcpGuardrails.decision",
        "which call a result is of is not told, so each is a no",
    ),
)
"""What agentgateway forwards, by which expression, and what becomes of calls without it."""
_NEVER_ASKED: Final = ("tasks/get", "tasks/update", "tasks/cancel")


def problems_of(content: Any) -> list[str]:
    """Return what is wrong with a plane's configuration, each with what to do; nothing, if all is well."""
    envoys = [one for one in _within(content) if _type(one) in {_PROC, _AUTHZ}]
    agents = [one for one in _within(content) if isinstance(one.get("mcpGuardrails"), dict)]
    if not envoys and not agents:
        return ["it asks nobody: there is no ext_proc, no ext_authz and no mcpGuardrails in it"]
    found = [problem for one in envoys for problem in _filter(one)]
    if envoys:
        found += _around(content)
    for one in agents:
        processors = one["mcpGuardrails"].get("processors") or [{}]
        found += [problem for each in processors for problem in _processor(each)]
    return list(dict.fromkeys(found))


def _filter(found: Found) -> Iterator[str]:
    if found.get("failure_mode_allow"):
        yield "failure_mode_allow: everything passes while Douane is away; write false"
    if _type(found) == _AUTHZ:
        yield from _authz(found)
    else:
        yield from _proc(found)


def _authz(found: Found) -> Iterator[str]:
    body = found.get("with_request_body") or {}
    if not body.get("max_request_bytes"):
        yield "with_request_body: no body is shown, so every call is a no; write max_request_bytes"
    if body.get("allow_partial_message"):
        yield "allow_partial_message: bodies are cut, and each such call is a no; write false"
    if JWT not in (found.get("metadata_context_namespaces") or ()):
        yield f"metadata_context_namespaces: who calls is not told; write [{JWT}]"


def _proc(found: Found) -> Iterator[str]:
    modes = found.get("processing_mode") or {}
    for key in ("request_body_mode", "response_body_mode"):
        if modes.get(key) != "BUFFERED":
            yield f"{key}: bodies are not shown whole; write BUFFERED"
    for key in ("request_header_mode", "response_header_mode"):
        if modes.get(key) == "SKIP":
            yield f"{key}: heads are not shown; write SEND"
    for key in ("observability_mode", "allow_mode_override", "disable_immediate_response"):
        if found.get(key):
            yield f"{key}: what Douane answers does not count; write false"
    if _ROUTE not in (found.get("request_attributes") or ()):
        yield f"request_attributes: whose tools they are is not told; write [{_ROUTE}]"
    options = (found.get("metadata_options") or {}).get("forwarding_namespaces") or {}
    if JWT not in (options.get("untyped") or ()):
        yield f"metadata_options: who calls is not told; forward {JWT}"


def _around(content: Any) -> Iterator[str]:
    """Yield what else of an Envoy's configuration gets around the filters."""
    for one in _within(content):
        if str(_type(one)).endswith(_OVERRIDES) and one.get("disabled"):
            yield "disabled: a route asks about nothing; take it out"
        if "retry_policy" in one:
            yield "retry_policy: a call that was decided on once is sent again; take it out"
    if not any(one.get("payload_in_metadata") == "claims" for one in _within(content)):
        yield "payload_in_metadata: who calls is not told; write claims"


def _processor(found: Found) -> Iterator[str]:
    if str(found.get("failureMode", "failClosed")).lower() == "failopen":
        yield "failureMode: everything passes while Douane is away; write failClosed"
    methods = found.get("methods") or {}
    for method in _ASKED_ABOUT:
        if (phase := _phase(method, methods)) != "full":
            yield f"methods: {method} is asked about in phase {phase}; write '*': full"
    for method in _NEVER_ASKED:
        if method in methods:
            yield f"methods: {method} is listed, and agentgateway asks about none; take it out"
    metadata = found.get("metadata") or {}
    for key, said, why in _FORWARDED:
        if str(metadata.get(key, "")).strip() != said:
            yield f"metadata: {key}: {why}; write {said}"
    allowed = [str(one).lower() for one in (found.get("requestHeaders") or {}).get("allowed") or ()]
    if not allowed or "authorization" in allowed:
        yield "requestHeaders: clients' tokens are sent along; list what is allowed, without them"


def _phase(method: str, methods: Mapping[str, Any]) -> str:
    """Return the phase of `method` by the most exact of the keys that fit it."""
    head, _, tail = method.rpartition("/")
    keys = (method, f"{head}/*", f"{method.partition('/')[0]}/*", f"*/{tail}", "*")
    return str(next((methods[key] for key in keys if key in methods), "off")).lower()


def _type(found: Found) -> str:
    return str(found.get("@type", "")).rpartition("/")[2]


def _within(content: Any) -> Iterator[Found]:
    """Yield every mapping in `content`, itself included."""
    if isinstance(content, Mapping):
        yield content
        for inner in content.values():
            yield from _within(inner)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for inner in content:
            yield from _within(inner)
