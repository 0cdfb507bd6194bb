"""What `douane plane config` prints asks about everything, and fails closed."""

import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gateway.cli import main
from tests.planes.asking import KEY
from tests.servers.process import envoy_path

PLANE: Mapping[str, Any] = {"key": "env:EDGE", "servers": {"gh": "github"}}
real_envoy = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="Envoy is there for this processor only"
)


def printed(folder: Path, *words: str, grpc: Mapping[str, Any] | None = None, **plane: Any) -> Any:
    """Return what is printed for a plane of the kind that `words` end with."""
    product, kind = words[0], words[-1]
    content = {
        "version": 1,
        "public_url": "https://gateway.example",
        "servers": {"github": {"url": "https://mcp.example/github"}},
        "planes": {
            kind: {"edge": {**PLANE, **plane}},
            "grpc": grpc or {"listen": "127.0.0.1:9443"},
        },
    }
    config = folder / "douane.yaml"
    config.write_text(json.dumps(content))
    asked = ["--config", str(config), "plane", "config", product, "edge", *words[1:-1]]
    done = CliRunner().invoke(main, asked, env={"EDGE": KEY})
    return done.output if done.exit_code else yaml.safe_load(done.output)


def filters_of(content: Any) -> dict[str, Any]:
    (listener,) = content["static_resources"]["listeners"]
    (connection,) = listener["filter_chains"][0]["filters"]
    found = connection["typed_config"]["http_filters"]
    return {one["name"].rpartition(".")[2]: one["typed_config"] for one in found}


def test_ext_proc_shows_all_of_it_and_fails_closed(tmp_path: Path) -> None:
    filters = filters_of(printed(tmp_path, "envoy", "ext_proc"))
    assert list(filters) == ["jwt_authn", "ext_proc", "router"]
    asks = filters["ext_proc"]
    assert asks["failure_mode_allow"] is False
    assert asks["observability_mode"] is False
    assert asks["allow_mode_override"] is False
    modes = asks["processing_mode"]
    assert modes["request_body_mode"] == modes["response_body_mode"] == "BUFFERED"
    assert modes["request_header_mode"] == modes["response_header_mode"] == "SEND"
    assert asks["message_timeout"] == "2.000s"  # more than Douane takes, who says no first


def test_ext_authz_shows_whole_bodies_and_fails_closed(tmp_path: Path) -> None:
    content = printed(tmp_path, "envoy", "ext_authz")
    filters = filters_of(content)
    assert list(filters) == ["jwt_authn", "ext_authz", "router"]
    asks = filters["ext_authz"]
    assert asks["failure_mode_allow"] is False
    body = asks["with_request_body"]
    assert (body["allow_partial_message"], body["pack_as_bytes"]) == (False, True)
    assert asks["encode_raw_headers"] is True


@pytest.mark.parametrize("kind", ["ext_proc", "ext_authz"])
def test_a_token_is_good_for_one_server_and_goes_to_none(tmp_path: Path, kind: str) -> None:
    tokens = filters_of(printed(tmp_path, "envoy", kind))["jwt_authn"]
    provider = tokens["providers"]["gh"]
    assert provider["audiences"] == ["https://gateway.example/mcp/github"]
    assert provider["forward"] is False
    (rule,) = tokens["rules"]
    assert rule["requires"] == {"provider_name": "gh"}


def test_who_waits_longer_than_somebody_else_is_told(tmp_path: Path) -> None:
    """An answer that comes when its call counts as its worst already would be a no."""
    within: dict[str, Any] = {"report_within": "60s", "deadline": "3s"}
    for kind, waits in (("ext_proc", "57.000s"), ("ext_authz", "300.000s")):
        said: dict[str, Any] = within if kind == "ext_proc" else {"deadline": "3s"}
        content = printed(tmp_path, "envoy", kind, **said)
        (listener,) = content["static_resources"]["listeners"]
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        (route,) = manager["route_config"]["virtual_hosts"][0]["routes"]
        assert route["route"]["timeout"] == waits
        assert (manager["request_timeout"], manager["request_headers_timeout"]) == ("30s", "10s")
    content = printed(tmp_path, "agentgateway", "ext_mcp", **within)
    (route,) = content["binds"][0]["listeners"][0]["routes"]
    assert route["policies"]["timeout"] == {"requestTimeout": "57.000s"}
    (processor,) = route["policies"]["mcpGuardrails"]["processors"]
    assert processor["policies"]["http"] == {"requestTimeout": "4.000s"}


def test_nothing_is_sent_a_second_time(tmp_path: Path) -> None:
    assert "retry" not in json.dumps(printed(tmp_path, "envoy", "ext_proc"))


def test_agentgateway_asks_about_everything_and_fails_closed(tmp_path: Path) -> None:
    content = printed(tmp_path, "agentgateway", "ext_mcp")
    (route,) = content["binds"][0]["listeners"][0]["routes"]
    (processor,) = route["policies"]["mcpGuardrails"]["processors"]
    assert processor["failureMode"] == "failClosed"
    assert processor["methods"] == {"*": "full"}
    assert processor["metadata"] == {"claims": "jwt", "decision": "mcpGuardrails.decision"}
    assert "authorization" not in processor["requestHeaders"]["allowed"]
    assert route["policies"]["jwtAuth"]["mode"] == "strict"


def test_a_key_is_printed_only_if_that_is_asked_for(tmp_path: Path) -> None:
    for product, kind in (
        ("envoy", "ext_proc"),
        ("envoy", "ext_authz"),
        ("agentgateway", "ext_mcp"),
    ):
        assert KEY not in json.dumps(printed(tmp_path, product, kind))
        assert KEY in json.dumps(printed(tmp_path, product, "--with-key", kind))


@pytest.mark.parametrize(("product", "kind"), [("agentgateway", "ext_proc"), ("envoy", "ext_mcp")])
def test_a_plane_of_another_kind_is_wrong_use(tmp_path: Path, product: str, kind: str) -> None:
    assert "is no plane under" in printed(tmp_path, product, kind)


@real_envoy
@pytest.mark.parametrize("kind", ["ext_proc", "ext_authz"])
@pytest.mark.parametrize("listen", ["unix:/run/douane/planes.sock", "gateway.example:9443"])
def test_envoy_takes_what_is_printed(tmp_path: Path, kind: str, listen: str) -> None:
    tls = {} if listen.startswith("unix:") else {"certificate": "/c.pem", "key": "/k.pem"}
    content = printed(tmp_path, "envoy", kind, grpc={"listen": listen, **tls})
    path = tmp_path / "envoy.yaml"
    path.write_text(yaml.safe_dump(content))
    command = [str(envoy_path()), "--mode", "validate", "--config-path", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
