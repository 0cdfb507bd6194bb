"""Example configurations are read by the reader that the gateway uses."""

import re
from pathlib import Path

import pytest

from gateway.config import Config, parse, warnings
from gateway.config.values import SecretRef
from gateway.policy.toolchain import find_opa

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
EXAMPLES = {path.name: path for path in sorted((DEPLOY / "examples").glob("*.yaml"))}
ALL = {**EXAMPLES, "compose": DEPLOY / "compose" / "douane.yaml"}


def read(path: Path, text: str | None = None) -> Config:
    return parse(path.read_text() if text is None else text, file=path)


def test_there_are_the_examples_that_the_documentation_names() -> None:
    assert set(EXAMPLES) == {
        "behind-a-proxy.yaml",
        "minimal.yaml",
        "opa-server.yaml",
        "several-servers.yaml",
    }


@pytest.mark.parametrize("name", ALL)
def test_an_example_is_accepted_as_it_stands(name: str) -> None:
    assert read(ALL[name]).version == 1


@pytest.mark.parametrize("name", ["behind-a-proxy.yaml", "opa-server.yaml"])
def test_what_an_example_leaves_commented_out_is_accepted_too(name: str) -> None:
    """The alternatives in comments are configuration as well, and age like it."""
    text = EXAMPLES[name].read_text()
    if name == "behind-a-proxy.yaml":
        text = re.sub(r"(?m)^# (tls:|  certificate:|  key:)", r"\1", text)
        assert read(EXAMPLES[name], text).tls is not None
    else:
        text = re.sub(r"(?ms)^  opa:\n.*?\n\n", "\n", text)
        text = text.replace("  # opa: {managed: true}", "  opa: {managed: true}")
        opa = read(EXAMPLES[name], text).policy.opa
        assert opa is not None
        assert opa.managed


def test_the_minimal_example_is_the_fewest_keys_that_work() -> None:
    text = EXAMPLES["minimal.yaml"].read_text()
    keys = {line.strip() for line in text.splitlines() if line and not line.startswith("#")}
    assert keys == {
        "version: 1",
        "public_url: http://127.0.0.1:8080",
        "servers:",
        "notes:",
        "url: http://127.0.0.1:9001/mcp",
    }


@pytest.mark.parametrize("name", ["minimal.yaml", "several-servers.yaml", "behind-a-proxy.yaml"])
def test_an_example_has_no_warning_but_the_one_it_is_there_to_show(name: str) -> None:
    found = warnings(read(EXAMPLES[name]))
    expected = {"minimal.yaml": ["servers.notes.tools"]}.get(name, [])
    # Who is told of calls that wait is not for an example to say.
    assert [text.split(":")[0] for text in found] == [*expected, "alerts.webhooks"]


@pytest.mark.parametrize("name", ALL)
def test_no_example_holds_a_secret_itself(name: str) -> None:
    config = read(ALL[name])
    held = [server.credential.value for server in config.servers.values()]
    held.append(config.policy.opa.token if config.policy.opa else None)
    assert all(secret is None or isinstance(secret, SecretRef) for secret in held)


def test_the_authorization_of_the_opa_server_passes_its_own_tests() -> None:
    ran = find_opa().run("test", str(DEPLOY / "opa"))
    assert ran.ok, ran.lines
    assert "PASS: 10/10" in ran.out


def test_the_opa_server_is_given_the_roles_that_are_the_defaults() -> None:
    from yaml import safe_load

    given = safe_load((DEPLOY / "opa" / "config.yaml").read_text())["douane"]["config"]["roles"]
    defaults = read(EXAMPLES["minimal.yaml"]).roles.model_dump()
    assert given == {name: {"groups": list(role["groups"])} for name, role in defaults.items()}
