"""What is allowed and risky is told in `douane check`."""

from pathlib import Path

import pytest

from gateway.config import parse, warnings
from gateway.domain.plane_reach import missing
from gateway.domain.planes import PlaneKind

SERVER = "servers: {a: {url: 'https://a.example/mcp', tools: {t: {effect: read}}}}\n"


TOLD = (
    "alerts: {webhooks: {chat: {shape: slack, url: 'https://chat.example', events: [approval]}}}\n"
)


def advice(text: str, server: str = SERVER, told: str = TOLD) -> list[str]:
    return warnings(parse(f"version: 1\n{text}\n{server}\n{told}", file=Path("douane.yaml")))


def test_questions_of_which_nobody_is_told_draw_one() -> None:
    text = "public_url: http://127.0.0.1:8080"
    (found,) = advice(text, told="")
    assert found.startswith("alerts.webhooks: calls can wait for a person, and nobody is told")
    assert advice(text, told=TOLD.replace("approval", "drift")) == [found]
    assert advice(text) == []


def test_a_sound_configuration_draws_no_warning() -> None:
    assert advice("public_url: http://127.0.0.1:8080") == []


def test_plain_http_open_to_other_machines_draws_one() -> None:
    assert advice("public_url: http://127.0.0.1:8080\nlisten: 0.0.0.0:8080") == [
        (
            "listen: 0.0.0.0:8080 is open to other machines while public_url is plain http; "
            "tokens would cross the network in the clear: use https, or listen on 127.0.0.1"
        )
    ]


def test_an_admin_listener_open_to_other_machines_draws_one() -> None:
    assert advice("public_url: http://127.0.0.1:8080\nadmin_listen: '[::]:8081'") == [
        (
            "admin_listen: [::]:8081 is open to other machines; "
            "listen on 127.0.0.1 and let a proxy decide who may come"
        )
    ]


def test_https_that_nobody_speaks_draws_one() -> None:
    text = "public_url: https://gate.example"
    told = (
        "trusted_proxies: public_url is https and the gateway speaks no TLS itself; name the "
        "proxy in front of it, so that the log shows the callers' addresses, or set `tls`"
    )
    assert advice(text) == [told]
    assert advice(f"{text}\ntrusted_proxies: [10.0.0.1]") == []
    assert advice(f"{text}\ntls: {{certificate: a, key: b}}") == []


def test_tls_behind_a_plain_public_url_draws_one() -> None:
    assert advice("public_url: http://127.0.0.1:8080\ntls: {certificate: a, key: b}") == [
        "tls: public_url begins with http:, so clients will not speak TLS; make it https"
    ]


def test_a_plain_upstream_elsewhere_and_an_unlabelled_one_draw_one_each() -> None:
    text = "public_url: http://127.0.0.1:8080"
    assert advice(text, "servers: {a: {url: 'http://a.example/mcp'}}") == [
        "servers.a.url: plain http to another machine; use https",
        (
            "servers.a.tools: no tool is labelled, so each is judged by the strictest reading; "
            "`douane servers suggest-labels a` proposes labels"
        ),
    ]


def test_a_core_of_servers_that_are_not_there_draws_one_each() -> None:
    text = "public_url: http://127.0.0.1:8080\ndiscovery: {core: [a__t, b__t, a]}"
    told = (
        "discovery.core: {} is a tool of no server that is configured; write `server__tool`, as "
        "`douane discovery core --suggest` does"
    )
    assert advice(text) == [told.format("b__t"), told.format("a")]


def test_what_a_plane_cannot_do_is_told() -> None:
    text = "public_url: http://127.0.0.1:8080\nplanes: {authzen: {edge: {key: 'env:E', servers: {b: a}%s}}}"
    cannot, promises = advice(text % "")
    assert cannot.startswith("planes.authzen.edge: nobody here sees whether it asks")
    assert promises.startswith("planes.authzen.edge.duties: ")
    _, reports = advice(text % ", reports: none")
    assert reports.startswith("planes.authzen.edge.reports: ")
    assert len(advice(text % ", duties: [replace_result]")) == 1
    host = (
        "planes: {experimental_interceptors: {edge: {key: 'env:E', client: c, servers: {b: a}%s}}}"
    )
    text = f"public_url: http://127.0.0.1:8080\n{host}"
    draft, promises = advice(text % "")
    assert "is a draft" in draft
    assert promises.startswith("planes.experimental_interceptors.edge.duties: ")
    assert len(advice(text % ", duties: [replace_result]")) == 1


@pytest.mark.parametrize("kind", ["ext_authz", "ext_mcp", "ext_proc"])
def test_what_a_plane_that_asks_by_grpc_does_not_hold_is_told(kind: str) -> None:
    planes = (
        f"grpc: {{listen: '127.0.0.1:9443'}}, {kind}: {{edge: {{key: 'env:E', servers: {{b: a}}}}}}"
    )
    found = advice(f"public_url: http://127.0.0.1:8080\nplanes: {{{planes}}}")
    lacks = missing(PlaneKind(kind))
    assert found[0].startswith(f"planes.{kind}.edge: nobody here sees whether it fails open")
    assert all(thing in found[1] for thing in lacks) if lacks else len(found) == 1


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("authzen", ""),
        ("ext_proc", ""),
        ("experimental_interceptors", ", client: c"),
    ],
)
@pytest.mark.parametrize("credential", ["oauth", "exchange", "none"])
def test_that_a_plane_carries_calls_to_a_server_of_people_is_told(
    kind: str, more: str, credential: str
) -> None:
    exchanges = ", client_id: g, client_secret: 'env:S', token_url: 'https://idp.example/token'"
    needs = {"exchange": exchanges}
    server = SERVER.replace(
        "tools:", f"credential: {{kind: {credential}{needs.get(credential, '')}}}, tools:"
    )
    plane = f"{kind}: {{edge: {{key: 'env:E', servers: {{b: a}}{more}}}}}"
    planes = f"planes: {{grpc: {{listen: '127.0.0.1:9443'}}, {plane}}}"
    found = [
        one
        for one in advice(f"public_url: http://127.0.0.1:8080\n{planes}", server)
        if one.startswith(f"planes.{kind}.edge.servers: a has a credential for each person")
    ]
    assert len(found) == (credential != "none")
