"""`douane plane check` finds what would let something pass unjudged."""

import copy
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from gateway.planes.checks import problems_of
from gateway.planes.parts import within
from gateway.planes.written import read
from tests.planes import test_printed_configurations as printing
from tests.planes.test_printed_configurations import filters_of, real_envoy
from tests.servers.process import envoy_path


@cache
def printed_once(product: str, kind: str) -> Any:
    with TemporaryDirectory() as folder:
        return printing.printed(Path(folder), product, kind)


def printed(product: str, kind: str) -> Any:
    """Return what is printed, to be changed at will."""
    return copy.deepcopy(printed_once(product, kind))


@pytest.fixture(params=["ext_proc", "ext_authz", "ext_mcp"])
def ours(request: pytest.FixtureRequest) -> Any:
    product = "agentgateway" if request.param == "ext_mcp" else "envoy"
    return printed(product, request.param)


def test_nothing_is_wrong_with_what_is_printed(ours: Any) -> None:
    assert problems_of(ours) == []


@pytest.mark.parametrize("content", [None, [], {}, "text", {"static_resources": {"listeners": []}}])
def test_what_asks_nobody_is_told(content: Any) -> None:
    (problem,) = problems_of(content)
    assert problem.startswith("it asks nobody")


def test_what_stands_in_pairs_is_looked_through() -> None:
    """YAML has a list of them for what others read as a list of mappings."""
    (told,) = within(yaml.safe_load("!!pairs [a: {b: 1}]"))
    assert told == {"b": 1}


def changed(content: Any, found: Callable[[Any], Any], key: str, to: Any) -> Any:
    """Return `content` with one key changed, or taken out."""
    other = copy.deepcopy(content)
    part = found(other)
    if to is None:
        del part[key]
    else:
        part[key] = to
    return other


def asks(content: Any) -> Any:
    return next(one for name, one in filters_of(content).items() if name.startswith("ext_"))


def route(content: Any) -> Any:
    connection = content["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    return connection["typed_config"]["route_config"]["virtual_hosts"][0]["routes"][0]


def provider(content: Any) -> Any:
    return filters_of(content)["jwt_authn"]["providers"]["gh"]


OFF = {
    "envoy.filters.http.ext_proc": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
        "disabled": True,
    }
}


def entry(content: Any) -> Any:
    """Return how the filter that asks stands among the others."""
    filters = manager(content)["http_filters"]
    return next(one for one in filters if ".ext_" in one["name"])


def manager(content: Any) -> Any:
    return content["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0][
        "typed_config"
    ]


def host(content: Any) -> Any:
    return manager(content)["route_config"]["virtual_hosts"][0]


def per_route(kind: str, **said: Any) -> Any:
    """Return what a route says of the filter."""
    name = "ExtProcPerRoute" if kind == "ext_proc" else "ExtAuthzPerRoute"
    type_ = f"type.googleapis.com/envoy.extensions.filters.http.{kind}.v3.{name}"
    return {f"envoy.filters.http.{kind}": {"@type": type_, **said}}


def off(kind: str) -> Any:
    type_ = "type.googleapis.com/envoy.config.route.v3.FilterConfig"
    return {f"envoy.filters.http.{kind}": {"@type": type_, "disabled": True}}


BODIES = {"max_request_bytes": 1024, "pack_as_bytes": True}
HALF = {"default_value": {"numerator": 50, "denominator": "HUNDRED"}}
SKIPPED = {"processing_mode": {"request_body_mode": "NONE"}}
MIRRORED = [{"cluster": "jwks"}]

REAL = [
    ("ext_proc", entry, "disabled", True, "disabled"),
    ("ext_authz", entry, "disabled", True, "disabled"),
    ("ext_proc", entry, "is_optional", True, "is_optional"),
    ("ext_proc", asks, "failureModeAllow", True, "failure_mode_allow"),
    ("ext_proc", asks, "mutation_rules", {"disallow_all": True}, "mutation_rules"),
    ("ext_proc", asks, "forward_rules", {"disallowed_headers": {"patterns": [{"exact": "x"}]}}, "forward_rules"),
    ("ext_proc", host, "typed_per_filter_config", per_route("ext_proc", overrides=SKIPPED), "overrides"),
    ("ext_proc", host, "typed_per_filter_config", per_route("ext_proc", overrides={"failure_mode_allow": True}), "overrides"),
    ("ext_proc", route, "typedPerFilterConfig", per_route("ext_proc", disabled=True), "disabled"),
    ("ext_proc", host, "typed_per_filter_config", off("ext_proc"), "disabled"),
    ("ext_authz", host, "typed_per_filter_config", off("ext_authz"), "disabled"),
    ("ext_authz", host, "typed_per_filter_config", per_route("ext_authz", disabled=True), "disabled"),
    ("ext_authz", host, "typed_per_filter_config", per_route("ext_authz", check_settings={"disable_request_body_buffering": True}), "check_settings"),
    ("ext_authz", host, "typed_per_filter_config", per_route("ext_authz", check_settings={"with_request_body": BODIES}), "check_settings"),
    ("ext_authz", asks, "filter_enabled", HALF, "filter_enabled"),
    ("ext_authz", asks, "filterEnabled", HALF, "filter_enabled"),
    ("ext_authz", asks, "filter_enabled_metadata", {"filter": "a", "path": [{"key": "b"}], "value": {"bool_match": True}}, "filter_enabled_metadata"),
    ("ext_authz", asks, "disallowed_headers", {"patterns": [{"exact": "x"}]}, "disallowed_headers"),
    ("ext_authz", asks, "encode_raw_headers", False, "encode_raw_headers"),
    ("ext_authz", asks, "encode_raw_headers", None, "encode_raw_headers"),
    ("ext_authz", lambda one: asks(one)["with_request_body"], "pack_as_bytes", False, "pack_as_bytes"),
    ("ext_authz", lambda one: asks(one)["with_request_body"], "pack_as_bytes", None, "pack_as_bytes"),
    ("ext_proc", lambda one: route(one)["route"], "request_mirror_policies", MIRRORED, "request_mirror_policies"),
    ("ext_authz", asks, "decoder_header_mutation_rules", {"disallow_all": True}, "decoder_header_mutation_rules"),
    ("ext_proc", lambda one: route(one)["route"], "auto_host_rewrite", None, "auto_host_rewrite"),
    ("ext_authz", lambda one: route(one)["route"], "auto_host_rewrite", False, "auto_host_rewrite"),
]  # fmt: skip
"""Of which kind, where, what, and what is told of it."""


def wrong(kind: str, found: Any, key: str, to: Any) -> Any:
    content = printed("envoy", kind)
    part = found(content)
    snake = re.sub("([A-Z])", r"_\1", key).lower()
    if snake != key and snake in part:
        del part[snake]  # as Envoy has it, once
    if to is None:
        del part[key]
    else:
        part[key] = to
    return content


@pytest.mark.parametrize("one", REAL)
def test_what_an_envoy_would_let_pass_is_told(one: Any) -> None:
    *change, told = one
    names = [problem.partition(":")[0] for problem in problems_of(wrong(*change))]
    # Where the filter is off, its listener asks nobody besides.
    assert [name for name in names if name != "listeners"] == [told]


@real_envoy
def test_an_envoy_runs_with_all_of_these(tmp_path: Path) -> None:
    """A finding that Envoy would not start with is of no use."""
    command = [str(envoy_path()), "--mode", "validate", "--config-path"]
    for number, (*change, _) in enumerate(REAL[:: len(REAL) // 3]):
        path = tmp_path / f"{number}.yaml"
        path.write_text(yaml.safe_dump(wrong(*change)))
        done = subprocess.run(
            [*command, str(path)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr


def second(content: Any, *, cluster: str, filters: list[Any] | None = None) -> Any:
    """Return `content` with a listener more, which leads to `cluster` by a chain of its own."""
    other = copy.deepcopy(content)
    listener = copy.deepcopy(other["static_resources"]["listeners"][0])
    listener["name"] = "second"
    listener["address"]["socket_address"]["port_value"] += 1
    chain = listener["filter_chains"][0]["filters"][0]["typed_config"]
    chain["stat_prefix"] = "second"
    chain["http_filters"] = chain["http_filters"][-1:] if filters is None else filters
    to = {"cluster": cluster}
    chain["route_config"]["virtual_hosts"][0]["routes"] = [{"match": {"prefix": "/"}, "route": to}]
    other["static_resources"]["listeners"].append(listener)
    return other


@pytest.mark.parametrize("kind", ["ext_proc", "ext_authz"])
def test_a_listener_more_that_asks_nobody_is_told(kind: str) -> None:
    content = printed("envoy", kind)
    (problem,) = problems_of(second(content, cluster="server_gh"))
    assert problem.startswith("listeners: second asks nobody")
    # One that leads elsewhere is nobody's business here.
    assert problems_of(second(content, cluster="jwks")) == []
    same = next(
        one for one in content["static_resources"]["clusters"] if one["name"] == "server_gh"
    )
    content["static_resources"]["clusters"].append({**same, "name": "direct"})
    (problem,) = problems_of(second(content, cluster="direct"))
    assert problem.startswith("listeners: second asks nobody")


def test_a_listener_more_whose_routes_are_sent_is_told() -> None:
    content = second(printed("envoy", "ext_proc"), cluster="jwks")
    chain = content["static_resources"]["listeners"][1]["filter_chains"][0]["filters"][0]
    del chain["typed_config"]["route_config"]
    chain["typed_config"]["rds"] = {"route_config_name": "r"}
    (problem,) = problems_of(content)
    assert problem.startswith("listeners: second asks nobody")


@pytest.mark.parametrize("weighted", [True, False])
def test_a_way_to_the_servers_without_http_is_told(*, weighted: bool) -> None:
    content = second(printed("envoy", "ext_proc"), cluster="jwks")
    several = {"weighted_clusters": {"clusters": [{"name": "server_gh", "weight": 1}]}}
    content["static_resources"]["listeners"][1]["filter_chains"][0]["filters"] = [
        {
            "name": "tcp",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "second",
                **(several if weighted else {"cluster": "server_gh"}),
            },
        }
    ]
    (problem,) = problems_of(content)
    assert problem.startswith("listeners: second asks nobody")


MATCHES: list[tuple[Any, bool]] = [
    ({"path": "/mcp/gh"}, True),
    ({"path": "/mcp/gh", "case_sensitive": True}, True),
    ({"path": "/mcp/gh", "case_sensitive": False}, False),
    ({"prefix": "/mcp/gh"}, False),
    ({"path_separated_prefix": "/mcp/gh"}, False),
    ({"safe_regex": {"regex": "/mcp/gh.*"}}, False),
    ({"path_match_policy": {"name": "template"}}, False),
    ({"connect_matcher": {}}, False),
]
REWRITES: list[tuple[Any, bool]] = [
    ({"regex_rewrite": {"pattern": {"regex": ".*"}, "substitution": "/mcp"}}, True),
    ({"regex_rewrite": {"pattern": {"regex": "^.*$"}, "substitution": "/mcp"}}, True),
    ({"regex_rewrite": {"pattern": {"regex": "^.*$"}, "substitution": r"/mcp\\0"}}, False),
    ({"regex_rewrite": {"pattern": {"regex": "^/mcp/gh"}, "substitution": "/mcp"}}, False),
    ({"prefix_rewrite": "/mcp"}, False),
    ({}, False),
]
"""And whether nothing of what a client writes there goes on."""


@pytest.mark.parametrize(("match", "is_one"), MATCHES, ids=str)
@pytest.mark.parametrize(("rewrite", "is_whole"), REWRITES, ids=str)
@pytest.mark.parametrize("kind", ["ext_proc", "ext_authz"])
def test_a_route_by_which_clients_write_a_path_is_told(
    kind: str, match: Any, rewrite: Any, *, is_one: bool, is_whole: bool
) -> None:
    content = printed("envoy", kind)
    found = route(content)
    del found["route"]["regex_rewrite"]
    found["match"] = match
    found["route"].update(rewrite)
    problems = problems_of(content)
    assert [one.partition(":")[0] for one in problems] == ["routes"] * (not (is_one or is_whole))
    content["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"][
        "route_config"
    ]["ignore_path_parameters_in_path_matching"] = True
    problems = problems_of(content)
    assert [one.partition(":")[0] for one in problems] == ["routes"] * (not is_whole)


def test_a_filter_that_asks_where_something_matches_is_told() -> None:
    content = printed("envoy", "ext_proc")
    ours = entry(content)
    ours["typed_config"] = {
        "@type": "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher",
        "extension_config": {"name": "it", "typed_config": ours["typed_config"]},
    }
    assert [one.partition(":")[0] for one in problems_of(content)] == ["http_filters", "listeners"]


def test_what_a_route_says_of_the_filter_in_other_words_is_told() -> None:
    content = printed("envoy", "ext_proc")
    said = {"envoy.filters.http.ext_proc": {"@type": "type.googleapis.com/some.Other"}}
    host(content)["typed_per_filter_config"] = said
    (problem,) = problems_of(content)
    assert problem.startswith("typed_per_filter_config:")


@pytest.mark.parametrize(
    ("found", "key", "to", "told"),
    [
        (asks, "failure_mode_allow", True, "failure_mode_allow"),
        (asks, "observability_mode", True, "observability_mode"),
        (asks, "allow_mode_override", True, "allow_mode_override"),
        (asks, "request_attributes", [], "request_attributes"),
        (asks, "metadata_options", None, "metadata_options"),
        (lambda one: asks(one)["processing_mode"], "request_body_mode", "NONE", "request_body_mode"),
        (lambda one: asks(one)["processing_mode"], "response_body_mode", None, "response_body_mode"),
        (lambda one: asks(one)["processing_mode"], "response_header_mode", "SKIP", "response_header_mode"),
        (lambda one: route(one)["route"], "retry_policy", {"retry_on": "5xx"}, "retry_policy"),
        (route, "typed_per_filter_config", OFF, "disabled"),
        (lambda one: filters_of(one)["jwt_authn"], "providers", {}, "payload_in_metadata"),
        (provider, "audiences", None, "audiences: a token for another server is good by gh"),
        (provider, "audiences", [], "audiences: a token for another server is good by gh"),
        (provider, "audiences", ["a", "b"], "audiences: a token for another server is good by gh"),
    ],
)  # fmt: skip
def test_what_ext_proc_would_let_pass_is_told(found: Any, key: str, to: Any, told: str) -> None:
    content = changed(printed("envoy", "ext_proc"), found, key, to)
    (problem,) = problems_of(content)
    assert problem.startswith(told)


def requiring(content: Any, *wanted: Any) -> Any:
    """Return `content` with a provider of no audiences, and what its rules want of it."""
    other = changed(content, provider, "audiences", None)
    tokens = filters_of(other)["jwt_authn"]
    tokens["providers"]["Gh"] = tokens["providers"].pop("gh")
    tokens["rules"] = [{"match": {"prefix": "/"}, "requires": one} for one in wanted]
    return other


def apart(*audiences: str) -> Any:
    return {"providerAndAudiences": {"providerName": "Gh", "audiences": list(audiences)}}


@pytest.mark.parametrize(
    ("wanted", "is_well"),
    [
        ([apart("a"), apart("b")], True),
        ([{"requires_any": {"requirements": [apart("a")]}}], True),
        ([apart("a"), apart("a", "b")], False),
        ([apart("a"), apart()], False),
        ([apart("a"), {"provider_name": "Gh"}], False),
        ([{"provider_name": "Gh"}], False),
        ([], False),
    ],
)
def test_audiences_may_stand_where_a_route_wants_them(wanted: list[Any], *, is_well: bool) -> None:
    problems = problems_of(requiring(printed("envoy", "ext_proc"), *wanted))
    assert [one.partition(":")[0] for one in problems] == ["audiences"] * (not is_well)


def test_whose_tokens_nobody_here_is_told_may_be_for_anybody() -> None:
    content = printed("envoy", "ext_proc")
    filters_of(content)["jwt_authn"]["providers"]["web"] = {"issuer": "https://web.example"}
    assert problems_of(content) == []


@pytest.mark.parametrize(
    ("found", "key", "to", "told"),
    [
        (asks, "failure_mode_allow", True, "failure_mode_allow"),
        (asks, "with_request_body", None, "with_request_body"),
        (lambda one: asks(one)["with_request_body"], "allow_partial_message", True, "allow_partial_message"),
        (asks, "metadata_context_namespaces", [], "metadata_context_namespaces"),
    ],
)  # fmt: skip
def test_what_ext_authz_would_let_pass_is_told(found: Any, key: str, to: Any, told: str) -> None:
    content = changed(printed("envoy", "ext_authz"), found, key, to)
    (problem,) = problems_of(content)
    assert problem.startswith(f"{told}:")


def processor(content: Any) -> Any:
    (one,) = content["binds"][0]["listeners"][0]["routes"]
    return one["policies"]["mcpGuardrails"]["processors"][0]


def jwt_auth(content: Any) -> Any:
    (one,) = content["binds"][0]["listeners"][0]["routes"]
    return one["policies"]["jwtAuth"]


@pytest.mark.parametrize(
    ("found", "key", "to", "told"),
    [
        (processor, "failureMode", "failOpen", "failureMode"),
        (processor, "methods", {"*": "full", "tools/list": "request"}, "methods: tools/list"),
        (processor, "methods", {"*": "full", "prompts/*": "off", "prompts/list": "full"}, "methods: prompts/get"),
        (processor, "methods", {"*": "full", "tasks/update": "full"}, "methods: tasks/update"),
        (lambda one: processor(one)["metadata"], "decision", None, "metadata: decision"),
        (lambda one: processor(one)["metadata"], "decision", "jwt.decision", "metadata: decision"),
        (lambda one: processor(one)["metadata"], "claims", None, "metadata: claims"),
        (lambda one: processor(one)["metadata"], "claims", "jwt.sub", "metadata: claims"),
        (processor, "requestHeaders", {"allowed": []}, "requestHeaders"),
        (processor, "requestHeaders", {"allowed": ["Authorization"]}, "requestHeaders"),
        (jwt_auth, "providers", [None, "x", {"issuer": "j"}], "audiences: a token of j"),
        (jwt_auth, "audiences", None, "audiences"),
        (jwt_auth, "audiences", ["a", "b"], "audiences"),
        (jwt_auth, "providers", [{"issuer": "i", "audiences": ["a"]}, {"issuer": "j"}], "audiences: a token of j"),
    ],
)  # fmt: skip
def test_what_agentgateway_would_let_pass_is_told(found: Any, key: str, to: Any, told: str) -> None:
    content = changed(printed("agentgateway", "ext_mcp"), found, key, to)
    (problem,) = problems_of(content)
    assert problem.startswith(told)


def test_a_route_of_agentgateway_that_asks_nobody_is_told() -> None:
    content = printed("agentgateway", "ext_mcp")
    routes = content["binds"][0]["listeners"][0]["routes"]
    routes.append({**copy.deepcopy(routes[0]), "name": "second"})
    assert problems_of(content) == []
    del routes[1]["policies"]["mcpGuardrails"]
    (problem,) = problems_of(content)
    assert problem.startswith("routes: second asks nobody")


def test_a_route_of_agentgateway_to_no_server_of_mcp_may_take_any_token() -> None:
    content = printed("agentgateway", "ext_mcp")
    web = {"backends": [{"host": "web:80"}], "policies": {"jwtAuth": {"issuer": "i"}}}
    content["binds"][0]["listeners"][0]["routes"].append(web)
    assert problems_of(content) == []


@pytest.mark.parametrize("audiences", [None, [], ["a", "b"]])
def test_tokens_that_agentgateway_verifies_by_the_words_of_mcp_are_looked_at(
    audiences: Any,
) -> None:
    content = printed("agentgateway", "ext_mcp")
    policies = content["binds"][0]["listeners"][0]["routes"][0]["policies"]
    policies["mcpAuthentication"] = policies.pop("jwtAuth")
    assert problems_of(content) == []
    policies["mcpAuthentication"]["audiences"] = audiences
    (problem,) = problems_of(content)
    assert problem.startswith("audiences: a token of")


@pytest.mark.parametrize("comes_first", [True, False])
def test_what_two_routes_share_is_looked_at_where_one_of_them_asks(*, comes_first: bool) -> None:
    content = printed("agentgateway", "ext_mcp")
    routes = content["binds"][0]["listeners"][0]["routes"]
    policies = routes[0]["policies"]
    guardrails = policies.pop("mcpGuardrails")
    for one in routes[0]["backends"]:
        one["policies"] = {"mcpGuardrails": guardrails}
    web = {"backends": [{"host": "web:80"}], "policies": policies}
    routes.insert(0 if comes_first else 1, web)
    again = yaml.safe_load(yaml.safe_dump(content))
    assert (
        again["binds"][0]["listeners"][0]["routes"][0]["policies"]
        is (again["binds"][0]["listeners"][0]["routes"][1]["policies"])
    )
    assert problems_of(again) == []
    del again["binds"][0]["listeners"][0]["routes"][0]["policies"]["jwtAuth"]["audiences"]
    (problem,) = problems_of(again)
    assert problem.startswith("audiences: a token of")


def beside(content: Any, name: str, **rule: Any) -> Any:
    """Return `content` with a route more, to another server, and with a rule more if there is one."""
    other = copy.deepcopy(content)
    (one,) = host(other)["routes"]
    path = {"path": f"/mcp/{name}"}
    two = {**one, "name": name, "match": path, "route": {**one["route"], "cluster": name}}
    if "typed_per_filter_config" in one:
        text = yaml.safe_dump(one["typed_per_filter_config"]).replace(
            "server: gh", f"server: {name}"
        )
        two["typed_per_filter_config"] = yaml.safe_load(text)
    host(other)["routes"].append(two)
    tokens = filters_of(other)["jwt_authn"]
    own = {**tokens["providers"]["gh"], "audiences": [f"https://gateway.example/mcp/{name}"]}
    tokens["providers"]["own"] = own
    if rule:
        tokens["rules"].append({"match": path, **rule})
    return other


BY_GH = {"provider_name": "gh"}
BY_OWN = {"provider_name": "own"}
AUDIENCES = {"provider_name": "own", "audiences": ["https://gateway.example/mcp/github"]}


@pytest.mark.parametrize("kind", ["ext_proc", "ext_authz"])
@pytest.mark.parametrize(
    ("rule", "is_well"),
    [
        ({"requires": BY_OWN}, True),
        ({}, True),  # nobody is told who calls
        ({"requires": BY_GH}, False),
        ({"requires": {"requires_any": {"requirements": [BY_OWN, BY_GH]}}}, False),
        ({"requires": {"provider_and_audiences": AUDIENCES}}, False),
        ({"requirementName": "gHub"}, False),
        ({"match": {"path": "/elsewhere"}, "requires": BY_GH}, True),
        ({"match": {"prefix": "/elsewhere"}, "requires": BY_GH}, True),
        ({"match": {"prefix": "/mcp/"}, "requires": BY_GH}, False),
        ({"match": {"safe_regex": {"regex": "/mcp/.*"}}, "requires": BY_GH}, False),
    ],
    ids=str,
)
def test_rules_that_take_the_same_tokens_at_several_servers_are_told(
    kind: str, rule: Any, *, is_well: bool
) -> None:
    content = beside(printed("envoy", kind), "jira", **rule)
    filters_of(content)["jwt_authn"]["requirementMap"] = {"gHub": BY_GH}
    problems = problems_of(content)
    told = ["audiences: a token of https://gateway.example for https://gateway.example/mcp/github"]
    assert [one.partition(" is good at gh, jira;")[0] for one in problems] == told * (not is_well)


@pytest.mark.parametrize("first", ["/mcp/jira", "/mcp/"])
@pytest.mark.parametrize("case", [None, False])
def test_of_several_rules_the_first_that_surely_fits_counts(
    first: str, *, case: bool | None
) -> None:
    content = beside(printed("envoy", "ext_proc"), "jira")
    tokens = filters_of(content)["jwt_authn"]
    key = "prefix" if first.endswith("/") else "path"
    tokens["rules"] += [
        {"match": {key: first}, "requires": BY_OWN},
        {"match": {"prefix": "/"}, "requires": BY_GH},
    ]
    if case is not None:
        host(content)["routes"][1]["match"]["case_sensitive"] = case
    is_told = any("is good at gh, jira" in one for one in problems_of(content))
    assert is_told is (case is False)


def test_one_rule_for_the_routes_of_several_servers_is_told() -> None:
    content = beside(printed("envoy", "ext_proc"), "jira")
    filters_of(content)["jwt_authn"]["rules"] = [{"match": {"prefix": "/"}, "requires": BY_GH}]
    (problem,) = problems_of(content)
    assert " is good at gh, jira;" in problem


@pytest.mark.parametrize("at", [host, lambda one: host(one)["routes"][1]])
def test_what_a_route_requires_by_itself_counts_alone(at: Any) -> None:
    for name, is_well in (("gh", False), ("own", True)):
        content = beside(printed("envoy", "ext_proc"), "jira", requires=BY_GH)
        tokens = filters_of(content)["jwt_authn"]
        tokens["requirement_map"] = {"gh": BY_GH, "own": BY_OWN}
        at(content)["typed_per_filter_config"] = {
            "envoy.filters.http.jwt_authn": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig",
                "requirement_name": name,
            }
        }
        told = [one for one in problems_of(content) if "is good at gh, jira" in one]
        assert bool(told) is (not is_well or at is host)


def test_two_ways_to_one_server_may_take_the_same_tokens() -> None:
    content = beside(printed("envoy", "ext_proc"), "jira", requires=BY_GH)
    one, two = host(content)["routes"]
    two["name"] = "gh"
    assert problems_of(content) == []
    two["name"], two["route"]["cluster"] = "jira", one["route"]["cluster"]
    assert problems_of(content) == []
    two["route"]["regex_rewrite"] = {"pattern": {"regex": ".*"}, "substitution": "/jira"}
    (problem,) = problems_of(content)
    assert problem.startswith("audiences:")


def test_filters_of_two_listeners_that_take_the_same_tokens_are_told() -> None:
    content = printed("envoy", "ext_proc")
    filters = manager(content)["http_filters"]
    two = second(content, cluster="other", filters=copy.deepcopy(filters))
    chain = two["static_resources"]["listeners"][1]["filter_chains"][0]["filters"][0][
        "typed_config"
    ]
    routes = chain["route_config"]["virtual_hosts"][0]["routes"]
    routes[:] = [
        {**route(content), "name": "jira", "route": {**route(content)["route"], "cluster": "jira"}}
    ]
    (problem,) = problems_of(two)
    assert " is good at gh, jira;" in problem
    chain["http_filters"][0]["typed_config"]["providers"]["gh"]["audiences"] = ["another"]
    assert problems_of(two) == []


@pytest.mark.parametrize("around", ["route", "listener", "backend"])
def test_tokens_that_an_agentgateway_takes_at_several_servers_are_told(around: str) -> None:
    content = printed("agentgateway", "ext_mcp")
    listener = content["binds"][0]["listeners"][0]
    (one,) = listener["routes"]
    two = yaml.safe_load(yaml.safe_dump(one).replace("gh", "jira"))
    two["backends"][0]["mcp"]["targets"][0]["mcp"]["host"] = "https://mcp.example/jira"
    listener["routes"].append(two)
    if around == "listener":
        listener["policies"] = {"jwtAuth": one["policies"].pop("jwtAuth")}
        del two["policies"]["jwtAuth"]
    elif around == "backend":
        two["backends"][0]["policies"] = {"jwtAuth": two["policies"].pop("jwtAuth")}
    else:
        two["policies"]["jwtAuth"] = {"providers": [two["policies"]["jwtAuth"]]}
    (problem,) = problems_of(content)
    assert " is good at gh, jira;" in problem
    del two["policies"]["mcpGuardrails"]
    assert [text.partition(":")[0] for text in problems_of(content)] == ["routes"]
    two["policies"]["mcpGuardrails"] = one["policies"]["mcpGuardrails"]
    two["backends"][0]["mcp"] = one["backends"][0]["mcp"]
    assert problems_of(content) == []


def spoilt(content: Any, to: Any) -> Iterator[Any]:
    """Yield `content` with `to` in the place of each part of it, one at a time."""
    yield to
    if isinstance(content, dict):
        for key, inner in content.items():
            for other in spoilt(inner, to):
                yield {**content, key: other}
    elif isinstance(content, list):
        for at, inner in enumerate(content):
            for other in spoilt(inner, to):
                yield [*content[:at], other, *content[at + 1 :]]


@pytest.mark.parametrize(
    "to", [None, "x", 5, True, ["x"], [None], {"x": None}, {"x": ["x"]}], ids=str
)
def test_what_is_no_configuration_of_anything_is_no_bug(ours: Any, to: Any) -> None:
    for content in spoilt(ours, to):
        assert isinstance(problems_of(content), list)


@pytest.mark.parametrize("odd", [None, "x", ["x"]])
def test_a_provider_that_is_none_is_told_of_as_nobody(odd: Any) -> None:
    content = printed("envoy", "ext_proc")
    providers = filters_of(content)["jwt_authn"]["providers"]
    providers["other"] = odd
    assert problems_of(content) == []
    providers["gh"] = odd
    (problem,) = problems_of(content)
    assert problem.startswith("payload_in_metadata:")


@pytest.mark.parametrize("processors", [[], [{"kind": "cel", "failureMode": "failClosed"}]])
def test_an_agentgateway_that_asks_no_server_is_told(processors: Any) -> None:
    content = printed("agentgateway", "ext_mcp")
    (route_,) = content["binds"][0]["listeners"][0]["routes"]
    route_["policies"]["mcpGuardrails"]["processors"] = processors
    assert any(one.startswith("methods: tools/call") for one in problems_of(content))


def test_the_command_exits_1_if_anything_would_pass(tmp_path: Path) -> None:
    content = printed("envoy", "ext_proc")
    file = tmp_path / "envoy.yaml"
    for allow, status in ((False, 0), (True, 1)):
        file.write_text(yaml.safe_dump(changed(content, asks, "failure_mode_allow", allow)))
        assert CliRunner().invoke(main, ["plane", "check", str(file)]).exit_code == status
    file.write_text("{")
    assert CliRunner().invoke(main, ["plane", "check", str(file)]).exit_code == 2


BOMB = "a: &a [1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 100)}]\n" for before, name in pairwise("abcde")
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x\n  b: *x\n", "line 2: `*x` stands within `&x` itself"),
        ("&x [*x]", "line 1: `*x` stands within `&x` itself"),
        ("a: &x\n  <<: *x\n", "line 2: `*x` stands within `&x` itself"),
        ("[" * 20_000, "line 1: nested deeper than"),
        ("\n- " + "- " * 20_000, "line 2: nested deeper than"),
        (BOMB, "line 4: more than 1000000 parts"),
        ("a: 1\nb: [", "line 3: not YAML: "),
        ("a: *x", "line 1: not YAML: "),
        ("a: 2020-13-45", "line 1: not YAML: a date or a number that is none"),
        ("a: !!timestamp x", "line 1: not YAML: a date or a number that is none"),
        ("\0", "line 1: not YAML: "),
    ],
)
def test_what_cannot_be_looked_through_is_told_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "plane.yaml"
    file.write_text(text)
    told = CliRunner().invoke(main, ["plane", "check", str(file)])
    assert told.exit_code == 2
    assert told.exception is None or isinstance(told.exception, SystemExit)
    assert f"{file} cannot be read: {problem}" in told.stderr


def test_what_is_said_once_and_used_again_is_read() -> None:
    assert read(b"a: &x [1, {b: 2}]\nc: *x\nd: {<<: &y {e: 1}, f: *y}") == {
        "a": [1, {"b": 2}],
        "c": [1, {"b": 2}],
        "d": {"e": 1, "f": {"e": 1}},
    }
    assert read(b"[" * 200 + b"]" * 200)
