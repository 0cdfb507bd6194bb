"""The keys of a server that the gateway starts: what is taken, and what is refused and why."""

import os
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships without stubs
import pytest

from gateway.config import Config, parse, schema, warnings
from gateway.errors import ConfigError

HEAD = "version: 1\npublic_url: http://localhost\nservers:\n  a: "
FILE = Path("/etc/douane/douane.yaml")


def read(entry: str) -> Config:
    return parse(f"{HEAD}{{{entry}}}", file=FILE)


def problems(entry: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        read(entry)
    return [problem.partition(": ")[2] for problem in refused.value.problems]


def test_a_command_is_all_that_a_local_server_needs():
    server = read("command: [tool, --flag, ./here]").servers["a"]
    assert server.command == ("tool", "--flag", "./here")
    assert (server.url, server.jail, server.network) == (None, "auto", None)
    assert (dict(server.environment), server.files.read, server.files.write) == ({}, (), ())
    assert server.folder == FILE.parent


def test_what_it_reaches_is_listed():
    def allowed(entry: str) -> list[str]:
        network = read(f"command: [x], network: {entry}").servers["a"].network
        return [str(destination) for destination in network.allow] if network else ["?"]

    listed = "['API.example.com:443', '*.example.org:8443', '10.0.0.7:5432', '[::1]:80']"
    assert allowed(f"{{allow: {listed}}}") == [
        "api.example.com:443",
        "*.example.org:8443",
        "10.0.0.7:5432",
        "[::1]:80",
    ]
    assert allowed("none") == allowed("{}") == allowed("{allow: []}") == []


def test_the_printed_schema_knows_both_ways_to_write_a_network():
    for network in ("none", {"allow": ["a.com:443"]}):
        entry = {"a": {"command": ["x"], "network": network}}
        content = {"version": 1, "public_url": "http://localhost", "servers": entry}
        jsonschema.validate(content, schema(), cls=jsonschema.Draft202012Validator)


def test_paths_begin_where_the_file_is():
    files = read("command: [x], folder: w, files: {read: [r, /abs], write: [o]}").servers["a"]
    assert files.folder == Path("/etc/douane/w")
    assert files.files.read == (Path("/etc/douane/r"), Path("/abs"))
    assert files.files.write == (Path("/etc/douane/o"),)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("url: http://localhost/mcp, command: [x]", "servers.a.url: give either `url` or `command`"),
        ("tools: {}", "servers.a.url: give either `url` or `command`"),
        ("command: []", "servers.a.url: give either `url` or `command`"),
        ("command: ['']", "servers.a.command[0]: must not be empty"),
        ('command: ["x\\0"]', "servers.a.command: a word of a command holds no NUL"),
        ("command: [x], credential: {kind: oauth}", "servers.a.credential: a `command` is shown none; hand it secrets in `environment`"),
        ("url: http://localhost/mcp, jail: none", "servers.a.jail: is for a server with a `command`; remove it"),
        ("url: http://localhost/mcp, environment: {A: 'env:PATH'}", "servers.a.environment: is for a server with a `command`; remove it"),
        ("url: http://localhost/mcp, files: {read: [x]}", "servers.a.files: is for a server with a `command`; remove it"),
        ("url: http://localhost/mcp, network: none", "servers.a.network: is for a server with a `command`; remove it"),
        ("command: [x], jail: maybe", "servers.a.jail: write `auto` or `none`"),
        ("command: [x], network: all", "servers.a.network: write `none`, or list what it reaches under `allow`"),
        ("command: [x], network: ['a.com:443']", "servers.a.network: write `none`, or list what it reaches under `allow`"),
        ("command: [x], network: {deny: []}", "servers.a.network.deny: unknown key; known here: allow"),
        ("command: [x], network: {allow: ['a.com:443', 'b.com']}", "servers.a.network.allow[1]: write HOST:PORT, such as `api.example.com:443` or `*.example.com:443`"),
        ("command: [x], network: {allow: ['*.com:443']}", "servers.a.network.allow[0]: `*.com:443` is nearly everything; name the domain you need"),
        ("command: [x], jail: none, network: {allow: ['a.com:443']}", "servers.a.network: nothing keeps to it without a jail; remove it, or `jail: none`"),
        ("url: http://localhost/mcp, network: {allow: ['a.com:443']}", "servers.a.network: is for a server with a `command`; remove it"),
        ("command: [x], environment: {https_proxy: 'env:X'}, network: {allow: ['a.com:443']}", "servers.a.network: the gateway sets `https_proxy` itself; remove it from `environment`"),
        ("command: [x], jail: none, network: none", "servers.a.network: nothing keeps to it without a jail; remove it, or `jail: none`"),
        ("command: [x], jail: none, files: {read: [x]}", "servers.a.files: nothing keeps to it without a jail; remove it, or `jail: none`"),
        ("command: [x], environment: {A: literal}", "servers.a.environment.A: secrets come by reference only: write `env:NAME` or `file:PATH`"),
        ("command: [x], environment: {A-B: 'env:X'}", "servers.a.environment.A-B: a variable's name is of A-Z, a-z, 0-9 and `_`, and begins with no digit"),
        ("command: [x], environment: {HOME: 'env:X'}", "servers.a.environment.HOME: the gateway sets `HOME` itself; remove it"),
        ("command: [x], environment: {LD_PRELOAD: 'env:X'}", "servers.a.environment.LD_PRELOAD: says what the system's own programs load; remove it"),
    ],
    ids=lambda given: given[:40],
)  # fmt: skip
def test_what_cannot_be_is_refused(entry: str, told: str):
    assert problems(entry) == [told]


def test_a_secret_of_its_environment_is_tried_when_the_file_is_read():
    with pytest.raises(ConfigError, match="env:NOT_THERE"):
        parse(
            f"{HEAD}{{command: [x], environment: {{A: 'env:NOT_THERE'}}}}",
            file=FILE,
            environ=os.environ,
        )


def test_a_server_without_a_jail_deserves_a_second_look():
    told = "runs as the gateway's own user, who can read every secret; remove `jail: none`"
    found = [text for text in warnings(read("command: [x], jail: none")) if "jail" in text]
    assert [text for text in found if "jail" in text] == [f"servers.a.jail: it {told}"]
    assert not [text for text in warnings(read("command: [x]")) if "jail" in text]
