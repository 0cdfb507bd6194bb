"""The section `planes`: a plane is registered for servers that there are, with a key of its own."""

from pathlib import Path

import pytest

from gateway.config import Config, parse
from gateway.domain.planes import REPLACE_RESULT, PlaneKind, Reports
from gateway.errors import ConfigError
from gateway.wiring.planes import hosts_of, planes_of

FILE = Path("/etc/douane/douane.yaml")
HEAD = """\
version: 1
public_url: http://127.0.0.1:8080
servers: {mail: {url: "http://127.0.0.1:9001/mcp"}}
"""
KEYS = {"EDGE": "e" * 32, "OTHER": "o" * 32, "SHORT": "s" * 31}


def config(planes: str, environ: dict[str, str] | None = None) -> Config:
    return parse(f"{HEAD}planes: {{authzen: {{{planes}}}}}", file=FILE, environ=environ)


def edge(more: str = "", key: str = "EDGE", name: str = "edge") -> str:
    return f"{name}: {{key: 'env:{key}', servers: {{m: mail}}{more}}}"


def test_nobody_is_a_plane_unless_it_is_written_down() -> None:
    assert planes_of(parse(HEAD, file=FILE), {}) == {}


def test_the_least_is_asked_of_an_operator_and_given_to_a_plane() -> None:
    (plane,) = planes_of(config(edge(), KEYS), KEYS).values()
    assert plane.issuers == ("http://127.0.0.1:8080",)
    assert (plane.vouches, plane.client, plane.types, plane.duties) == (False, "", {}, frozenset())
    assert plane.scopes == {"tools:list", "tools:call", "prompts", "resources"}
    assert (plane.reports, plane.report_within_s) == (Reports.RESULTS, 120.0)
    assert not plane.tasks
    assert KEYS["EDGE"] not in repr(plane)


def test_all_of_it_becomes_the_domains() -> None:
    more = (
        ", issuers: ['https://idp.example'], subjects: vouched, groups: roles, client: cron, "
        "scopes: [tools:write], tasks: true, duties: [replace_result], "
        "resources: {record: {server: mail, actions: {read: read_record}}}"
    )
    (plane,) = planes_of(config(edge(more), KEYS), KEYS).values()
    assert (plane.vouches, plane.groups_property, plane.client) == (True, "roles", "cron")
    assert plane.duties == {REPLACE_RESULT}
    assert plane.tasks
    assert plane.types["record"].actions == {"read": "read_record"}


@pytest.mark.parametrize(
    "planes",
    [
        "edge: {servers: {m: mail}}",
        "edge: {key: 'env:EDGE'}",
        "edge: {key: 'env:EDGE', servers: {}}",
        "edge: {key: 'env:EDGE', servers: {m: bank}}",
        edge(key="SHORT"),
        edge(key="MISSING"),
        edge(name="Edge"),
        edge(", groups: roles"),
        edge(", reports: none, duties: [replace_result]"),
        edge(", duties: [redact]"),
        edge(", scopes: [admin]"),
        edge(", resources: {record: {server: bank, actions: {read: x}}}"),
        edge(", resources: {record: {server: mail, actions: {}}}"),
    ],
)
def test_what_cannot_be_meant_is_refused(planes: str) -> None:
    with pytest.raises(ConfigError):
        config(planes, KEYS)


def hosts(sections: str) -> Config:
    text = f"{HEAD}planes: {{authzen: {{{edge()}}}, experimental_interceptors: {{{sections}}}}}"
    return parse(text, file=FILE, environ=KEYS)


def host(more: str = "", *, name: str = "chain", key: str = "OTHER") -> str:
    return f"{name}: {{key: 'env:{key}', servers: {{m: mail}}, client: c_1{more}}}"


def test_a_host_is_itself_unless_it_may_say_whose_call_it_is() -> None:
    (itself,) = hosts_of(hosts(host()), KEYS).values()
    assert (itself.asserts, itself.sessions) == (False, False)
    assert (itself.plane.client, itself.plane.vouches) == ("c_1", False)
    assert not itself.plane.tasks
    more = ", asserts: true, issuers: ['https://idp.example'], subjects: vouched, groups: g, runs: host"
    (trusted,) = hosts_of(hosts(host(more)), KEYS).values()
    assert (trusted.asserts, trusted.sessions, trusted.plane.tasks) == (True, True, True)
    assert trusted.plane.groups_property == "g"


@pytest.mark.parametrize(
    "section",
    [
        host(", subjects: vouched"),
        host(", issuers: ['https://idp.example']"),
        host(", asserts: true, groups: g"),
        host(", runs: all"),
        host(key="SHORT"),
        "chain: {key: 'env:OTHER', servers: {m: mail}}",
        "chain: {key: 'env:OTHER', client: c_1, servers: {m: bank}}",
    ],
)
def test_what_a_host_cannot_mean_is_refused(section: str) -> None:
    with pytest.raises(ConfigError):
        hosts(section)


def test_a_host_has_a_name_and_a_key_of_its_own() -> None:
    for section in (host(name="edge"), host(key="EDGE")):
        with pytest.raises(ConfigError):
            hosts_of(hosts(section), KEYS)


def test_a_plane_submits_refusals_where_keys_of_ours_are_published() -> None:
    (plane,) = planes_of(config(edge(", access_requests: true"), KEYS), KEYS).values()
    assert plane.access_requests
    elsewhere = (
        f"{HEAD}auth: {{mode: external, external: {{issuer: 'https://idp.example', "
        "audience: api, profile: rfc9068}}\n"
    )
    (without,) = planes_of(
        parse(f"{elsewhere}planes: {{authzen: {{{edge()}}}}}", file=FILE, environ=KEYS), KEYS
    ).values()
    assert not without.access_requests
    asks = edge(", access_requests: true")
    with pytest.raises(ConfigError):
        planes_of(
            parse(f"{elsewhere}planes: {{authzen: {{{asks}}}}}", file=FILE, environ=KEYS), KEYS
        )


def test_two_planes_have_two_keys() -> None:
    both = f"{edge()}, {edge(name='other', key='OTHER')}"
    assert len(planes_of(config(both, KEYS), KEYS)) == 2
    with pytest.raises(ConfigError):
        planes_of(config(both, KEYS), {**KEYS, "OTHER": KEYS["EDGE"]})


def asking(planes: str, grpc: str = "{listen: '127.0.0.1:9443'}") -> Config:
    return parse(f"{HEAD}planes: {{grpc: {grpc}, {planes}}}", file=FILE, environ=KEYS)


def test_planes_that_ask_by_grpc_promise_what_their_kind_does() -> None:
    found = asking(
        f"ext_proc: {{{edge()}}}, ext_mcp: {{{edge(', report_within: 9s', 'OTHER', 'agents')}}}"
    )
    proc, agents = planes_of(found, KEYS).values()
    assert (proc.kind, agents.kind) == (PlaneKind.EXT_PROC, PlaneKind.EXT_MCP)
    assert proc.reports is Reports.RESULTS
    assert proc.duties == {REPLACE_RESULT}
    assert (proc.deadline_s, agents.report_within_s) == (1.5, 9.0)
    assert proc.gives_ours
    (silent,) = planes_of(asking(f"ext_authz: {{{edge(', deadline: 1s')}}}"), KEYS).values()
    assert (silent.reports, silent.duties, silent.deadline_s) == (Reports.NONE, frozenset(), 1.0)
    assert not silent.gives_ours


@pytest.mark.parametrize("kind", ["ext_proc", "ext_authz"])
def test_clients_come_to_a_server_by_one_path(kind: str) -> None:
    (plane,) = planes_of(asking(f"{kind}: {{{edge()}}}"), KEYS).values()
    assert plane.path_of("m") == "/mcp/m"
    (plane,) = planes_of(asking(f"{kind}: {{{edge(', paths: {m: /post}')}}}"), KEYS).values()
    assert plane.path_of("m") == "/post"
    for wrong in ("{n: /post}", "{m: post}", "{m: '/post?a=b'}", "{m: '/post#a'}", "{m: ''}"):
        with pytest.raises(ConfigError):
            asking(f"{kind}: {{{edge(f', paths: {wrong}')}}}")


@pytest.mark.parametrize(
    "grpc",
    [
        "{listen: '0.0.0.0:9443'}",
        "{listen: '192.0.2.1:9443', client_ca: /ca.pem}",
        "{listen: '127.0.0.1:9443', certificate: /c.pem}",
        "{listen: '127.0.0.1:9443', key: /k.pem}",
        "{listen: '127.0.0.1:8080'}",
        "{listen: '127.0.0.1:8081'}",
        "{listen: 'unix:relative.sock'}",
        "{listen: 'unix:'}",
        "{listen: 9443}",
        "{}",
        "null",
    ],
)
def test_keys_cross_no_network_in_the_clear(grpc: str) -> None:
    with pytest.raises(ConfigError):
        asking(f"ext_proc: {{{edge()}}}", grpc)


@pytest.mark.parametrize(
    "grpc",
    [
        "{listen: '[::1]:9443'}",
        "{listen: 'unix:/run/planes.sock'}",
        "{listen: '0.0.0.0:9443', certificate: /c.pem, key: /k.pem, client_ca: /ca.pem}",
    ],
)
def test_planes_are_listened_to_where_nobody_else_hears(grpc: str) -> None:
    assert asking(f"ext_proc: {{{edge()}}}", grpc).planes.grpc is not None


@pytest.mark.parametrize(
    "planes",
    [
        f"authzen: {{{edge()}}}, ext_proc: {{{edge(key='OTHER')}}}",
        f"ext_proc: {{{edge(', reports: none')}}}",
        f"ext_authz: {{{edge(', report_within: 1s')}}}",
        f"ext_mcp: {{{edge(', groups: roles')}}}",
        "ext_mcp: {edge: {key: 'env:EDGE', servers: {m: bank}}}",
    ],
)
def test_what_cannot_be_meant_of_one_that_asks_by_grpc_is_refused(planes: str) -> None:
    with pytest.raises(ConfigError):
        asking(planes)
