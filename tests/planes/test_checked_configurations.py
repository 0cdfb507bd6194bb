"""`douane plane check` finds what would let something pass unjudged."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from gateway.planes.checks import problems_of
from tests.planes.test_printed_configurations import filters_of, printed


@pytest.fixture(params=["ext_proc", "ext_authz", "ext_mcp"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    product = "agentgateway" if request.param == "ext_mcp" else "envoy"
    return printed(tmp_path, product, request.param)


def test_nothing_is_wrong_with_what_is_printed(ours: Any) -> None:
    assert problems_of(ours) == []


@pytest.mark.parametrize("content", [None, [], {}, "text", {"static_resources": {"listeners": []}}])
def test_what_asks_nobody_is_told(content: Any) -> None:
    (problem,) = problems_of(content)
    assert problem.startswith("it asks nobody")


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


OFF = {
    "envoy.filters.http.ext_proc": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
        "disabled": True,
    }
}


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
    ],
)  # fmt: skip
def test_what_ext_proc_would_let_pass_is_told(
    tmp_path: Path, found: Any, key: str, to: Any, told: str
) -> None:
    content = changed(printed(tmp_path, "envoy", "ext_proc"), found, key, to)
    (problem,) = problems_of(content)
    assert problem.startswith(f"{told}:")


@pytest.mark.parametrize(
    ("found", "key", "to", "told"),
    [
        (asks, "failure_mode_allow", True, "failure_mode_allow"),
        (asks, "with_request_body", None, "with_request_body"),
        (lambda one: asks(one)["with_request_body"], "allow_partial_message", True, "allow_partial_message"),
        (asks, "metadata_context_namespaces", [], "metadata_context_namespaces"),
    ],
)  # fmt: skip
def test_what_ext_authz_would_let_pass_is_told(
    tmp_path: Path, found: Any, key: str, to: Any, told: str
) -> None:
    content = changed(printed(tmp_path, "envoy", "ext_authz"), found, key, to)
    (problem,) = problems_of(content)
    assert problem.startswith(f"{told}:")


def processor(content: Any) -> Any:
    (one,) = content["binds"][0]["listeners"][0]["routes"]
    return one["policies"]["mcpGuardrails"]["processors"][0]


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
    ],
)  # fmt: skip
def test_what_agentgateway_would_let_pass_is_told(
    tmp_path: Path, found: Any, key: str, to: Any, told: str
) -> None:
    content = changed(printed(tmp_path, "agentgateway", "ext_mcp"), found, key, to)
    (problem,) = problems_of(content)
    assert problem.startswith(told)


def test_the_command_exits_1_if_anything_would_pass(tmp_path: Path) -> None:
    content = printed(tmp_path, "envoy", "ext_proc")
    file = tmp_path / "envoy.yaml"
    for allow, status in ((False, 0), (True, 1)):
        file.write_text(yaml.safe_dump(changed(content, asks, "failure_mode_allow", allow)))
        assert CliRunner().invoke(main, ["plane", "check", str(file)]).exit_code == status
    file.write_text("{")
    assert CliRunner().invoke(main, ["plane", "check", str(file)]).exit_code == 2
