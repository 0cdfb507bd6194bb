"""Whatever is sent to the token endpoint and its neighbours, the answer is one of OAuth's."""

import asyncio
import base64
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.oauth.client_authentication import ASSERTION_TYPE
from gateway.oauth.clients import GRANT_TYPES, JWT_BEARER
from gateway.oauth.errors import ErrorCode
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.token_endpoint import TrustedIssuer
from tests.oauth.issuing import APP, CALLBACK, SOURCE, VERIFIER, Issuer
from tests.oauth.test_identity_assertions import AGENT, CLAIMS, IDP, NEW, Published, id_jag

ERRORS = {code.value for code in ErrorCode}
NAMES = [
    "grant_type",
    "code",
    "redirect_uri",
    "code_verifier",
    "client_id",
    "client_secret",
    "scope",
    "resource",
    "refresh_token",
    "device_code",
    "assertion",
    "client_assertion",
    "client_assertion_type",
    "token",
    "token_type_hint",
]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text("\"\\ =&%+;[]{}'<>\x00\n\x7f", max_size=8),
    st.sampled_from(
        [*GRANT_TYPES, APP.id, AGENT.id, NEW.secret, CALLBACK, VERIFIER, ASSERTION_TYPE, "a.b.c"]
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
QUIET = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def trusting(tmp_path) -> Iterator[Issuer]:
    issuer = Issuer(
        tmp_path,
        APP,
        AGENT,
        trusted=[TrustedIssuer(issuer=IDP, algorithm="ES256")],
        issuer_keys=Published(),
    )
    yield issuer
    issuer.stores.close()


def check(answer: TokenAnswer) -> None:
    """Accept an answer that RFC 6749 section 5.2 knows, and no other."""
    assert answer.status in {200, 400, 401, 429}
    if answer.status != 200:
        assert answer.body["error"] in ERRORS
        description = answer.body["error_description"]
        assert description.isascii()
        assert description.isprintable()
        assert not set(description) & set('"\\=')
    assert answer.record.fields["method"].startswith("oauth/")


def ask(issuer: Issuer, request: TokenRequest) -> None:
    """Send a request to every endpoint, as if there had been no failure before."""

    async def every_endpoint() -> None:
        check(await issuer.endpoint.answer(request))
        check(await issuer.revocation.answer(request))
        check(await issuer.devices.begin(request))

    issuer.clock.now += 100
    asyncio.run(every_endpoint())


@QUIET
@given(body=st.binary(max_size=200), query=st.sampled_from([b"", b"", b"a=b", b"\xff"]))
def test_any_octets(trusting, body, query):
    ask(trusting, TokenRequest(body=body, query=query, source_ip=SOURCE))


@QUIET
@given(
    pairs=st.lists(st.tuples(st.sampled_from(NAMES), TEXTS), max_size=8),
    authorization=st.lists(
        TEXTS
        | st.builds(
            lambda text: "Basic " + base64.b64encode(text.encode("utf-8", "replace")).decode(),
            st.text(max_size=12),
        ),
        max_size=2,
    ),
)
def test_any_form(trusting, pairs, authorization):
    body = "&".join(f"{name}={_quoted(text)}" for name, text in pairs).encode()
    request = TokenRequest(body=body, authorization=tuple(authorization), source_ip=SOURCE)
    ask(trusting, request)


@QUIET
@given(grant_type=st.sampled_from(GRANT_TYPES), more=st.dictionaries(st.sampled_from(NAMES), TEXTS))
def test_any_form_of_a_known_client(trusting, grant_type, more):
    form = {
        "code": "x",
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
        "refresh_token": "x",
        "device_code": "x",
        "token": "x",
        **more,
        "grant_type": grant_type,
        "client_id": AGENT.id,
        "client_secret": NEW.secret,
    }
    body = "&".join(f"{name}={_quoted(text)}" for name, text in form.items()).encode()
    ask(trusting, TokenRequest(body=body, source_ip=SOURCE))


@QUIET
@given(
    claims=st.dictionaries(st.sampled_from(sorted({*CLAIMS, "cnf", "nbf"})), JSON, max_size=4),
    header=st.dictionaries(st.sampled_from(["typ", "kid", "crit", "x5c"]), JSON, max_size=2),
)
def test_any_assertion_of_a_trusted_issuer(trusting, claims, header):
    try:
        text = id_jag(header=header, **claims)
    except (TypeError, ValueError):
        return  # no JSON can say this
    for name, kind in (("assertion", ""), ("client_assertion", ASSERTION_TYPE)):
        form = {name: text, "grant_type": JWT_BEARER}
        if kind:
            form["client_assertion_type"] = kind
        else:
            form |= {"client_id": AGENT.id, "client_secret": NEW.secret}
        body = "&".join(f"{key}={_quoted(each)}" for key, each in form.items()).encode()
        ask(trusting, TokenRequest(body=body, source_ip=SOURCE))


@pytest.mark.parametrize(
    "body",
    [
        b"grant_type",
        b"grant_type=client_credentials&&scope=x",
        b"grant_type=%ff",
        b"grant_type=\xff",
        b"grant_type=client_credentials&scope=a%00b",
        b"grant_type=client_credentials&scope=a%0Ab",
        b"grant_type=client_credentials&scope=%C3%A9",
        b"grant_type=client_credentials&%7F=x",
        b"&".join(b"p%d=1" % number for number in range(40)),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(trusting, body):
    answer = await trusting.endpoint.answer(TokenRequest(body=body, source_ip=SOURCE))
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


async def test_an_empty_form_names_no_client(trusting):
    answer = await trusting.endpoint.answer(TokenRequest(body=b"", source_ip=SOURCE))
    assert (answer.status, answer.body["error"]) == (401, "invalid_client")


def _quoted(text: str) -> str:
    return "".join(f"%{octet:02X}" for octet in text.encode("utf-8", "surrogatepass"))
