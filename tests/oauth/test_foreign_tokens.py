"""JWTs of other issuers: one algorithm, one key, one issuer, and in time."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from joserfc.util import urlsafe_b64encode

from gateway.errors import IdentityUnavailable, Unauthenticated
from tests.oauth.foreign import (
    EC,
    ISSUER,
    JWKS_URL,
    KEYS,
    OTHER_RSA,
    OUTAGE,
    RSA,
    Foreign,
    claims,
    encoded,
    public,
    sign,
    sign_with_secret,
)
from tests.oauth.world import NOW


async def read(
    text: str,
    foreign: Foreign | None = None,
    *,
    algorithm: str = "RS256",
    types: frozenset[str] = frozenset({"at+jwt"}),
) -> Mapping[str, Any]:
    tokens = (foreign or Foreign()).tokens
    return await tokens.claims(text, issuer=ISSUER, algorithm=algorithm, types=types)


async def refused(text: str, **rest: Any) -> None:
    with pytest.raises(Unauthenticated):
        await read(text, **rest)


@pytest.mark.parametrize("algorithm", KEYS)
async def test_a_token_of_the_pinned_algorithm_is_read(algorithm):
    text = sign(claims(), key=KEYS[algorithm], algorithm=algorithm)
    assert await read(text, algorithm=algorithm) == claims()
    for other in KEYS.keys() - {algorithm}:
        await refused(text, algorithm=other)


async def test_o14_no_signature_is_no_signature():
    for name in ("none", "None", "NONE", "nOnE"):
        text = sign(claims(), algorithm="none", header={"alg": name})
        await refused(text)
        await refused(text + "AA")


async def test_o14_a_public_key_is_no_secret():
    pem = RSA.as_pem(private=False)
    for secret in (pem, pem.strip(), json.dumps(public(RSA)).encode()):
        for name in ("HS256", "RS256"):
            await refused(sign_with_secret(claims(), secret, header={"alg": name, "kid": "rsa"}))


async def test_o14_a_symmetric_key_in_the_set_is_no_key():
    foreign, secret = Foreign(), b"s" * 32
    shared = {"kty": "oct", "k": urlsafe_b64encode(secret).decode(), "kid": "shared"}
    foreign.publish(shared, public(RSA))
    for name in ("HS256", "RS256"):
        text = sign_with_secret(claims(), secret, header={"alg": name, "kid": "shared"})
        await refused(text, foreign=foreign)


@pytest.mark.parametrize(
    "member",
    [
        {"jwk": public(OTHER_RSA)},
        {"jku": "https://evil.test/jwks"},
        {"x5u": "https://evil.test/x"},
        {"crit": ["exp"], "exp": 1},
        {"crit": []},
        {"b64": False},
    ],
)
async def test_o14_a_token_that_brings_its_own_key_or_an_extension_is_refused(member):
    foreign = Foreign()
    await refused(sign(claims(), header=member), foreign=foreign)
    await refused(sign(claims(), key=OTHER_RSA, header={"kid": "rsa", **member}), foreign=foreign)
    assert not [url for url in foreign.web.fetched if "evil" in url]


@pytest.mark.parametrize("kid", [None, "", 7, ["rsa"], "x" * 257, "../rsa", "rsa\x00", "other"])
async def test_o14_a_key_that_is_not_named_plainly_or_not_known_is_refused(kid):
    await refused(sign(claims(), header={"kid": kid}))


async def test_a_foreign_key_under_the_name_of_ours_is_refused():
    await refused(sign(claims(), key=OTHER_RSA, header={"kid": "rsa"}))


async def test_a_header_as_long_as_certificates_make_it_is_read():
    text = sign(claims(), header={"x5c": ["A" * 3000], "x5t": "AA", "x5t#S256": "AA"})
    assert await read(text) == claims()


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "application/AT+jwt"])
async def test_a_type_is_a_media_type(typ):
    assert await read(sign(claims(), header={"typ": typ})) == claims()


@pytest.mark.parametrize(
    "typ", [None, "", "jwt", "JWT", "at+jwt ", "oauth-id-jag+jwt", 1, ["at+jwt"]]
)
async def test_24_another_type_is_refused(typ):
    await refused(sign(claims(), header={"typ": typ}))


async def test_a_missing_type_is_read_where_it_is_one_of_the_types():
    assert await read(sign(claims(), header={"typ": None}), types=frozenset({""})) == claims()


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.test"},
        {"iss": ISSUER + "/"},
        {"iss": [ISSUER]},
        {"iss": None},
        {"exp": int(NOW)},
        {"exp": None},
        {"exp": str(int(NOW) + 600)},
        {"exp": True},
        {"exp": [int(NOW) + 600]},
        {"iat": None},
        {"iat": int(NOW) + 61},
        {"iat": "1"},
        {"iat": False},
        {"nbf": int(NOW) + 61},
        {"nbf": "1"},
        {"nbf": True},
    ],
)
async def test_25_a_token_of_another_issuer_or_time_is_refused(changes):
    foreign = Foreign()
    await refused(sign(claims(**changes)), foreign=foreign)
    assert foreign.web.fetched == []


async def test_25_numbers_that_are_none_are_refused():
    head = sign(claims()).partition(".")[0]
    for literal in ("NaN", "Infinity", "1e999"):
        text = json.dumps(claims()).replace(str(int(NOW) + 600), literal)
        await refused(f"{head}.{urlsafe_b64encode(text.encode()).decode()}.AA")


@pytest.mark.parametrize(
    "changes",
    [{"exp": NOW + 0.5}, {"iat": int(NOW) + 60}, {"nbf": int(NOW) + 60}, {"nbf": NOW - 0.5}],
)
async def test_clocks_may_differ_by_a_minute_and_times_may_have_fractions(changes):
    assert await read(sign(claims(**changes))) == claims(**changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "a.b",
        "a.b.c.d",
        "a.b.c.d.e",
        sign(claims()) + ".x",
        sign([]),
        sign("text"),
        sign(claims()).replace(".", "=.", 1),
        " " + sign(claims()),
        sign(claims()) + "\n",
        "\u00e9" + sign(claims()),
        sign(claims(padding="x" * 16_384)),
        f"{encoded([1])}.{encoded(claims())}.AA",
    ],
)
async def test_what_is_no_jwt_is_refused(text):
    await refused(text)


@pytest.mark.parametrize("named", ["none", "HS256", "PS256", "rs256", "", None, ["RS256"]])
async def test_a_token_that_names_another_algorithm_than_the_pinned_one_is_refused(named):
    await refused(sign(claims(), header={"alg": named}))


async def test_a_changed_claim_is_refused():
    head, _, signature = sign(claims()).split(".")
    await refused(f"{head}.{encoded(claims(sub='mallory'))}.{signature}")


async def test_a_signature_of_another_key_of_the_issuer_is_refused():
    foreign = Foreign()
    foreign.publish(public(RSA), public(OTHER_RSA), public(EC))
    text = sign(claims(), key=OTHER_RSA, header={"kid": "rsa"})
    await refused(text, foreign=foreign)
    assert await read(sign(claims(), key=OTHER_RSA), foreign) == claims()


async def test_when_keys_cannot_be_had_it_cannot_be_told():
    foreign = Foreign()
    foreign.web.pages[JWKS_URL] = OUTAGE
    with pytest.raises(IdentityUnavailable):
        await read(sign(claims()), foreign)
