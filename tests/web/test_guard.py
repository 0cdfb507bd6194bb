"""What is refused before a body is parsed."""

import pytest

from gateway.web.guard import Guard, Refused, guard_for, guard_of_admins
from gateway.web.scopes import TARGET

ORIGIN = Refused(status=403, code="origin", text="this Origin is not allowed")
HOST = Refused(status=421, code="host", text="this Host is not served here")
TOO_LARGE = Refused(status=413, code="too_large", text="the body is too large")
ENCODED = Refused(status=415, code="encoding", text="send the body unencoded")

GUARD = Guard(
    hosts=frozenset({"gateway.example"}),
    origins=frozenset({"https://app.example"}),
    request_bytes=1024,
)


def allowed(guard: Guard) -> tuple[set[str], set[str]]:
    """Return the hosts and the origins that a guard lets pass."""
    assert guard.origins is not None
    return set(guard.hosts), set(guard.origins)


def check(*headers: tuple[str, str], host: str | None = "gateway.example") -> Refused | None:
    pairs = [*headers] if host is None else [("host", host), *headers]
    return GUARD.check([(name.encode(), text.encode("latin-1")) for name, text in pairs])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("origin", "https://app.example")],
        [("origin", "HTTPS://App.Example")],
        [("content-length", "1024"), ("content-encoding", "Identity")],
    ],
)
def test_a_request_that_is_meant_for_us_passes(headers):
    assert check(*headers) is None
    assert check(*headers, host="GATEWAY.example") is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "gateway.example:8080",
        "gateway.example.evil.example",
        "gateway.example@evil.example",
        "",
        None,
    ],
)
def test_another_host_is_misdirected(host):
    assert check(host=host) == HOST


def test_two_hosts_are_none():
    assert check(("host", "gateway.example")) == HOST


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://app.example/",
        "null",
        "",
    ],
)
def test_a_page_of_another_origin_is_refused(origin):
    assert check(("origin", origin)) == ORIGIN


def test_a_second_origin_does_not_hide_behind_the_first():
    assert check(("origin", "https://app.example"), ("origin", "https://evil.example")) == ORIGIN


@pytest.mark.parametrize("length", ["1025", "9" * 5000, "-1", "+1", "1.0", "0x10", ""])
def test_a_body_that_is_said_to_be_too_large_or_of_no_length_is_refused(length):
    assert check(("content-length", length)) == TOO_LARGE


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", ""])
def test_an_encoded_body_is_refused(coding):
    assert check(("content-encoding", coding)) == ENCODED


@pytest.mark.parametrize(
    ("public_url", "listen", "hosts"),
    [
        ("https://gw.example", ("10.0.0.1", 8080), {"gw.example", "gw.example:443"}),
        ("https://GW.example:8443", ("10.0.0.1", 8080), {"gw.example:8443"}),
        ("http://gw.example", ("10.0.0.1", 80), {"gw.example", "gw.example:80"}),
    ],
)
def test_a_listener_answers_to_its_public_name_and_its_own_address(public_url, listen, hosts):
    guard = guard_for(public_url, listen, [], 1024)
    assert allowed(guard) == (hosts | {f"{listen[0]}:{listen[1]}"}, {public_url.lower()})
    assert guard.request_bytes == 1024


def test_on_loopback_every_spelling_of_it_counts():
    guard = guard_for("http://localhost:8080", ("127.0.0.1", 8080), [], 1024)
    hosts = {"127.0.0.1:8080", "localhost:8080", "[::1]:8080"}
    assert allowed(guard) == (hosts, {f"http://{host}" for host in hosts})


def test_behind_a_public_name_a_page_on_loopback_is_another_origin():
    guard = guard_for("https://gw.example", ("127.0.0.1", 8080), [], 1024)
    hosts = {
        *("gw.example", "gw.example:443"),
        *("127.0.0.1:8080", "localhost:8080", "[::1]:8080"),
    }
    assert allowed(guard) == (hosts, {"https://gw.example"})


def test_an_address_of_ipv6_is_written_in_brackets():
    guard = guard_for("https://gw.example", ("2001:db8::1", 8080), [], 1024)
    assert "[2001:db8::1]:8080" in guard.hosts


def test_the_operator_may_name_further_origins():
    guard = guard_for("https://gw.example", ("10.0.0.1", 8080), ["https://App.example"], 1024)
    assert allowed(guard)[1] == {"https://gw.example", "https://app.example"}


def asked_at(server, host, listen=("0.0.0.0", 8081)):
    """Return why the admin listener refuses what arrived at `server` for `host`."""
    scope = {
        "headers": [(b"host", host.encode())],
        "server": server,
        "raw_path": b"/readyz",
        "extensions": {TARGET: {"sent": b"/readyz"}},
    }
    return guard_of_admins(listen, 1024).refuses(scope)


@pytest.mark.parametrize(
    ("server", "host"),
    [
        (("10.1.2.3", 8081), "10.1.2.3:8081"),
        (("::ffff:10.1.2.3", 8081), "10.1.2.3:8081"),
        (("2001:db8::1", 8081), "[2001:db8::1]:8081"),
    ],
)
def test_who_listens_on_every_address_answers_to_the_one_that_was_asked(server, host):
    """A kubelet and a Prometheus write the address of the pod."""
    assert asked_at(server, host) is None
    assert asked_at(server, host, ("::", 8081)) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8081", "10.1.2.4:8081", "10.1.2.3:80", "10.1.2.3", ""],
)
def test_a_name_that_leads_to_our_address_is_none_of_ours(host):
    assert asked_at(("10.1.2.3", 8081), host) == HOST
    assert asked_at(None, host) == HOST


def test_who_listens_on_one_address_answers_to_that_alone():
    """What arrived at another one was sent there by somebody in between."""
    assert asked_at(("10.9.9.9", 8081), "10.9.9.9:8081", ("10.1.2.3", 8081)) == HOST
    assert asked_at(("10.1.2.3", 8081), "10.1.2.3:8081", ("10.1.2.3", 8081)) is None


def test_the_public_listener_has_its_names_alone():
    guard = guard_for("https://gw.example", ("0.0.0.0", 8080), [], 1024)
    assert not guard.by_address
