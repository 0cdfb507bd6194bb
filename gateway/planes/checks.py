"""What a plane's own configuration says that would let something pass unjudged."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.planes.audiences import Taken, shared, taken_by_envoy
from gateway.planes.envoy_checks import asked_in, problems_of_envoy
from gateway.planes.parts import Found, is_for_one, listed_in, part_of, parts_in, within

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
_VERIFIED: Final = ("jwtAuth", "mcpAuthentication")
"""Where agentgateway is told whose tokens are good."""


def problems_of(content: Any) -> list[str]:
    """Return what is wrong with a plane's configuration, each with what to do; nothing, if all is well."""
    agents = [one for one in within(content) if isinstance(one.get("mcpGuardrails"), dict)]
    is_envoys = bool(asked_in(content))
    if not is_envoys and not agents:
        return ["it asks nobody: there is no ext_proc, no ext_authz and no mcpGuardrails in it"]
    found = list(problems_of_envoy(content)) if is_envoys else []
    found += shared(taken_by_envoy(content))
    for one in agents:
        processors = [
            each
            for each in parts_in(one["mcpGuardrails"], "processors")
            if each.get("kind") == "remote"
        ]
        found += [problem for each in processors or [{}] for problem in _processor(each)]
    if agents:
        found += _unasked(content)
        found += _audiences(content)
        found += shared(_taken(content))
    return list(dict.fromkeys(found))


def _unasked(content: Any) -> Iterator[str]:
    """Yield which routes of an agentgateway lead to servers of MCP, and ask nobody."""
    for one in within(content):
        servers = [each for each in parts_in(one, "backends") if "mcp" in each]
        asks = "mcpGuardrails" in part_of(one, "policies") or all(
            "mcpGuardrails" in part_of(each, "policies") for each in servers
        )
        if servers and not asks:
            name = one.get("name") or one.get("matches") or "one"
            yield f"routes: {name} asks nobody; add mcpGuardrails to its policies"


def _audiences(content: Any) -> Iterator[str]:
    """Yield whose tokens are good at more servers than one, wherever Douane is asked about their calls."""
    for one in _asked_about(content):
        for each in _providers(one):
            if not is_for_one(each):
                yield (
                    f"audiences: a token of {each.get('issuer', 'anybody')} for another server is "
                    "good; write the one of the server"
                )


def _taken(content: Any) -> Iterator[Taken]:
    """Yield where tokens are good: at all targets of a route, or of what policies are around."""
    for one in _asked_about(content):
        parts = (part_of(part, "mcp") for part in _asked_about(one))
        targets = [each for part in parts for each in parts_in(part, "targets")]
        for each in _providers(part_of(one, "policies")):
            for audience in listed_in(each, "audiences"):
                for target in targets:
                    key = str(each.get("issuer", "anybody")), str(audience)
                    place = {said: at for said, at in target.items() if said != "name"}
                    yield key, str(target.get("name")), place


def _providers(policies: Found) -> Iterator[Found]:
    for tokens in (policies[key] for key in _VERIFIED if isinstance(policies.get(key), Mapping)):
        yield from parts_in(tokens, "providers") or [tokens]


def _asked_about(content: Any) -> Iterator[Found]:
    """Yield every mapping in `content`, but for those that stand in routes alone which ask nobody."""
    if isinstance(content, Mapping):
        is_route = isinstance(content.get("backends"), list)
        if is_route and not any("mcpGuardrails" in part for part in within(content)):
            return
        yield content
        content = list(content.values())
    if isinstance(content, list):
        for inner in content:
            yield from _asked_about(inner)


def _processor(found: Found) -> Iterator[str]:
    if str(found.get("failureMode", "failClosed")).lower() == "failopen":
        yield "failureMode: everything passes while Douane is away; write failClosed"
    methods = part_of(found, "methods")
    for method in _ASKED_ABOUT:
        if (phase := _phase(method, methods)) != "full":
            yield f"methods: {method} is asked about in phase {phase}; write '*': full"
    for method in _NEVER_ASKED:
        if method in methods:
            yield f"methods: {method} is listed, and agentgateway asks about none; take it out"
    metadata = part_of(found, "metadata")
    for key, said, why in _FORWARDED:
        if str(metadata.get(key, "")).strip() != said:
            yield f"metadata: {key}: {why}; write {said}"
    headers = part_of(found, "requestHeaders")
    allowed = [str(one).lower() for one in listed_in(headers, "allowed")]
    if not allowed or "authorization" in allowed:
        yield "requestHeaders: clients' tokens are sent along; list what is allowed, without them"


def _phase(method: str, methods: Mapping[str, Any]) -> str:
    """Return the phase of `method` by the most exact of the keys that fit it."""
    head, _, tail = method.rpartition("/")
    keys = (method, f"{head}/*", f"{method.partition('/')[0]}/*", f"*/{tail}", "*")
    return str(next((methods[key] for key in keys if key in methods), "off")).lower()
