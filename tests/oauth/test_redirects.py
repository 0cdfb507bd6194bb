"""Redirect URIs: what can be registered, and what a request may name."""

import pytest

from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.redirects import (
    is_on_the_device,
    matches,
    registrable,
    shown_host,
)

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
PRIVATE = frozenset({CURSOR})

HOSTILE = [
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "javascript://app.example/%0aalert(1)",
    "vbscript:msgbox",
    "data:text/html,x",
    "data://x/y",
    "file:///etc/passwd",
    "blob:https://app.example/x",
    "about:blank",
    "filesystem:https://app.example/x",
    "view-source:https://app.example/",
    "ftp://app.example/cb",
    "http://app.example/cb",
    "http://127.0.0.1.evil.test/cb",
    "http://localhost.evil.test/cb",
    "http://127.0.0.2/cb",
    "http://127.1/cb",
    "http://2130706433/cb",
    "http://0x7f000001/cb",
    "http://0.0.0.0/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "http://LOCALHOST/cb",
    "http:127.0.0.1/cb",
    "https:app.example/cb",
    "https:/app.example/cb",
    "https:///cb",
    "https://",
    "HTTPS://app.example/cb",
    "https://*.app.example/cb",
    "https://app.example/*",
    "https://app.example/cb#",
    "https://app.example/cb#frag",
    "https://user@app.example/cb",
    "https://user:pass@app.example/cb",
    "https://app.example@evil.test/cb",
    "http://127.0.0.1@evil.test/cb",
    "http://localhost:80@evil.test/cb",
    "private://user@host/cb",
    "https://app.example/a/../cb",
    "https://app.example/./cb",
    "https://app.example/..",
    "https://app.example/%2e%2e/cb",
    "https://app.example/%2E./cb",
    "https://app.example/a%2f..%2fcb",
    "https://app.example/a%5c..%5ccb",
    "https://../cb",
    "private:../cb",
    "https://app.example\\@evil.test/cb",
    "https://app.example/cb\\x",
    "https://app.example/cb\r\nx: y",
    "https://app.example/cb%0d%0aset-cookie:x",
    "https://app.example/cb%00",
    "https://app.example/cb%7F",
    "https://app.example/cb\t",
    " https://app.example/cb",
    "https://app.example/cb\n",
    "https://app.example/\u202ecb",
    "https://\u0430pp.example/cb",
    "https://app%2eexample/cb",
    "https://app.example/100%",
    "https://app.example/%zz",
    'https://app.example/"cb',
    "https://app.example/<cb>",
    "https://app.example:0/cb",
    "https://app.example:99999/cb",
    "https://app.example:x/cb",
    "https://app.example:/cb",
    "http://localhost:99999/cb",
    "//app.example/cb",
    "/cb",
    "cb",
    "",
    "https://app.example/" + "a" * 2000,
    None,
    7,
    ["https://app.example/cb"],
]


@pytest.mark.parametrize("uri", HOSTILE, ids=repr)
def test_what_is_dangerous_or_malformed_is_refused_even_beside_a_good_one(uri):
    with pytest.raises(OAuthError) as refused:
        registrable(["https://app.example/cb", uri], PRIVATE | {str(uri)})
    assert refused.value.error is ErrorCode.INVALID_REDIRECT_URI


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example/cb",
        "https://app.example",
        "https://app.example/",
        "https://app.example:8443/a/b?x=1&y=%2F..%2F",
        "https://[2001:db8::1]/cb",
        "https://claude.ai/api/mcp/auth_callback",
        "https://app.example/a..b/...",
        "http://127.0.0.1/cb",
        "http://127.0.0.1:33418/cb",
        "http://[::1]:1/cb",
        "http://localhost:8787/callback",
        "http://localhost",
        CURSOR,
    ],
)
def test_what_clients_register_is_kept(uri):
    assert registrable([uri], PRIVATE) == (uri,)


def test_of_three_at_once_the_unknown_private_scheme_alone_is_left_out():
    three = [
        CURSOR,
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ]
    assert registrable(three, frozenset()) == tuple(three[1:])
    assert registrable(three, PRIVATE) == tuple(three)


@pytest.mark.parametrize(
    "uri",
    [
        CURSOR + "/",
        CURSOR + "?x=1",
        CURSOR.upper(),
        "com.example.app:/cb",
        "intent://scan/#Intent".partition("#")[0],
    ],
)
def test_a_set_of_which_nothing_is_kept_is_refused(uri):
    with pytest.raises(OAuthError) as refused:
        registrable([uri], PRIVATE)
    assert refused.value.error is ErrorCode.INVALID_REDIRECT_URI


@pytest.mark.parametrize(
    "uris", [None, [], "https://app.example/cb", {"0": "https://app.example/cb"}, 1]
)
def test_redirect_uris_are_a_list_that_holds_something(uris):
    with pytest.raises(OAuthError):
        registrable(uris, PRIVATE)


def test_there_are_ten_redirect_uris_at_most():
    ten = [f"https://app.example/{number}" for number in range(10)]
    assert registrable(ten, PRIVATE) == tuple(ten)
    with pytest.raises(OAuthError):
        registrable([*ten, "https://app.example/10"], PRIVATE)


def test_one_that_is_written_twice_is_kept_once():
    assert registrable(["https://a.example/"] * 2, PRIVATE) == ("https://a.example/",)


REGISTERED = "https://app.example/cb"


@pytest.mark.parametrize(
    "asked",
    [
        "https://app.example/cb/",
        "https://app.example/CB",
        "https://APP.example/cb",
        "HTTPS://app.example/cb",
        "https://app.example:443/cb",
        "https://app.example:8443/cb",
        "http://app.example/cb",
        "https://app.example/cb?x=1",
        "https://app.example/cb?",
        "https://app.example/cb#",
        "https://app.example/cb#x",
        "https://app.example/a/../cb",
        "https://app.example/%63b",
        "https://app.example//cb",
        "https://user@app.example/cb",
        "https://app.example@evil.test/cb",
        "https://app.example.evil.test/cb",
        "https://app.example\\@evil.test/cb",
        "https://app.example/cb\r\nx: y",
        "https://app.example/cb%0d%0ax",
        "https://app.example/cb ",
        " https://app.example/cb",
        "https://\u0430pp.example/cb",
        "https://sub.app.example/cb",
        "https://app.example/",
        "https://app.example",
        "",
    ],
    ids=repr,
)
def test_only_the_very_string_that_was_registered_matches(asked):
    assert matches([REGISTERED], REGISTERED)
    assert not matches([REGISTERED], asked)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
@pytest.mark.parametrize("port", ["", ":1", ":33418", ":65535"])
def test_a_loopback_client_takes_the_port_it_gets(host, port):
    assert matches([f"http://{host}:8787/cb?x=1"], f"http://{host}{port}/cb?x=1")
    assert matches([f"http://{host}/cb?x=1"], f"http://{host}{port}/cb?x=1")


@pytest.mark.parametrize(
    "asked",
    [
        "http://localhost:1/cb",
        "http://[::1]:1/cb",
        "http://127.0.0.2:1/cb",
        "http://127.0.0.1:1/cb/",
        "http://127.0.0.1:1/CB",
        "http://127.0.0.1:1/",
        "http://127.0.0.1:1",
        "http://127.0.0.1:1/cb?x=1",
        "http://127.0.0.1:1/cb#x",
        "https://127.0.0.1:1/cb",
        "http://127.0.0.1:1@evil.test/cb",
        "http://127.0.0.1:0/cb",
        "http://127.0.0.1:99999/cb",
        "http://127.0.0.1:٣/cb",
        "http://127.0.0.1:/cb",
        "http://127.0.0.1.evil.test/cb",
        "http://127.0.0.1:1/cb\n",
    ],
    ids=repr,
)
def test_nothing_but_the_port_of_a_loopback_uri_is_free(asked):
    assert not matches(["http://127.0.0.1/cb"], asked)


def test_the_port_of_an_https_uri_is_never_free_even_on_this_machine():
    assert not matches(["https://localhost:1/cb"], "https://localhost:2/cb")
    assert not matches(["https://127.0.0.1/cb"], "https://127.0.0.1:2/cb")


@pytest.mark.parametrize(
    ("uri", "host", "on_the_device"),
    [
        ("https://app.example/cb", "app.example", False),
        ("https://app.example:8443/cb", "app.example:8443", False),
        ("https://localhost/cb", "localhost", False),
        ("http://127.0.0.1:5/cb", "127.0.0.1:5", True),
        ("http://[::1]/cb", "[::1]", True),
        (CURSOR, "cursor:", True),
    ],
)
def test_a_person_is_shown_where_the_code_goes(uri, host, on_the_device):
    assert shown_host(uri) == host
    assert is_on_the_device(uri) is on_the_device
