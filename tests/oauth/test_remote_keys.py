"""Keys and metadata of other issuers: believed only from themselves, kept through an outage."""

import asyncio

import pytest
from joserfc.jwk import ECKey
from joserfc.util import urlsafe_b64encode

from gateway.errors import IdentityUnavailable, Unauthenticated
from gateway.oauth.foreign.metadata import places_of
from tests.oauth.foreign import (
    EC,
    ED,
    ELSEWHERE,
    ISSUER,
    JWKS_URL,
    METADATA_URL,
    OPENID_URL,
    OTHER_RSA,
    OUTAGE,
    RSA,
    Foreign,
    public,
)

KID = "rsa"


def encoded_number(number: int) -> str:
    return urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).decode()


async def found(foreign: Foreign, kid: str = KID, algorithm: str = "RS256") -> str:
    key = await foreign.keys.key(ISSUER, kid, algorithm)
    assert not key.is_private
    return key.thumbprint()


def test_metadata_is_looked_for_where_both_specifications_say():
    assert places_of("https://a.test") == (
        "https://a.test/.well-known/oauth-authorization-server",
        "https://a.test/.well-known/openid-configuration",
    )
    assert places_of("https://a.test:1/x/") == (
        "https://a.test:1/.well-known/oauth-authorization-server/x",
        "https://a.test:1/x/.well-known/openid-configuration",
    )


async def test_the_first_metadata_that_is_the_issuers_counts():
    foreign = Foreign()
    assert (await foreign.metadata.of(ISSUER))["jwks_uri"] == JWKS_URL
    assert foreign.web.fetched == [METADATA_URL]


@pytest.mark.parametrize(
    "first", [404, 500, OUTAGE, ELSEWHERE, {}, {"issuer": "https://other.test"}, (302, {})]
)
async def test_without_oauth_metadata_that_is_the_issuers_openid_metadata_is_read(first):
    foreign = Foreign()
    foreign.web.pages |= {METADATA_URL: first, OPENID_URL: {"issuer": ISSUER, "x": 1}}
    assert await foreign.metadata.of(ISSUER) == {"issuer": ISSUER, "x": 1}


@pytest.mark.parametrize(
    "other",
    [ISSUER + "/", "https://idp.test/Tenant", "https://IDP.test/tenant", "", None, [ISSUER]],
)
async def test_metadata_of_another_issuer_is_not_believed(other):
    foreign = Foreign()
    foreign.web.pages = {METADATA_URL: {"issuer": other}, OPENID_URL: {"issuer": other}}
    with pytest.raises(IdentityUnavailable, match="another issuer"):
        await foreign.metadata.of(ISSUER)


async def test_a_key_is_found_by_its_name_through_the_issuers_metadata():
    foreign = Foreign()
    assert await found(foreign) == RSA.thumbprint()
    assert await found(foreign) == RSA.thumbprint()
    assert foreign.web.fetched == [METADATA_URL, JWKS_URL]


async def test_a_configured_place_of_the_keys_needs_no_metadata():
    foreign = Foreign()
    await foreign.keys.key(ISSUER, KID, "RS256", jwks_url=JWKS_URL)
    assert foreign.web.fetched == [JWKS_URL]


async def test_keys_of_two_issuers_are_kept_apart():
    foreign = Foreign()
    foreign.web.pages["https://b.test/keys"] = {"keys": [public(OTHER_RSA, kid=KID)]}
    assert await found(foreign) == RSA.thumbprint()
    other = await foreign.keys.key("https://b.test", KID, "RS256", jwks_url="https://b.test/keys")
    assert other.thumbprint() == OTHER_RSA.thumbprint()


@pytest.mark.parametrize(
    ("algorithm", "key"), [("RS256", RSA), ("PS256", RSA), ("ES256", EC), ("EdDSA", ED)]
)
async def test_each_algorithm_has_its_kind_of_key(algorithm, key):
    foreign = Foreign()
    assert await found(foreign, str(key.kid), algorithm) == key.thumbprint()
    for other in {"rsa", "ec", "ed"} - {key.kid}:
        with pytest.raises(Unauthenticated):
            await foreign.keys.key(ISSUER, other, algorithm)


@pytest.mark.parametrize(
    "jwk",
    [
        public(RSA, use="enc"),
        public(RSA, alg="PS256"),
        public(RSA, alg="RSA-OAEP"),
        public(RSA, kty="oct"),
        public(RSA, n="AQAB"),
        public(RSA, n="!"),
        public(RSA, n=None),
        public(RSA, kid=None),
        public(RSA, kid=""),
        public(RSA, kid=7),
        {"kty": "oct", "k": "c2VjcmV0", "kid": KID},
        public(EC, kid=KID),
        public(RSA, n=encoded_number(2**2046 + 1)),
        public(RSA, n=encoded_number(2**8192 + 1)),
        "text",
        None,
    ],
)
async def test_24_a_key_for_something_else_verifies_nothing(jwk):
    foreign = Foreign()
    foreign.publish(jwk, public(OTHER_RSA))
    with pytest.raises(Unauthenticated):
        await found(foreign)


@pytest.mark.parametrize(
    "jwk",
    [
        public(ECKey.generate_key("P-384", private=True), kid="ec"),
        public(EC, crv="P-384"),
        public(EC, y=public(EC)["x"]),
    ],
)
async def test_a_key_on_another_curve_or_beside_it_verifies_nothing(jwk):
    foreign = Foreign()
    foreign.publish(jwk, public(ECKey.generate_key("P-256", private=True), kid="good"))
    with pytest.raises(Unauthenticated):
        await found(foreign, "ec", "ES256")


async def test_the_private_half_of_a_published_key_is_left_out_and_certificates_are_not_looked_at():
    foreign = Foreign()
    foreign.publish({**RSA.as_dict(private=True), "x5c": ["AA"], "x5u": "https://evil.test/"})
    assert await found(foreign) == RSA.thumbprint()


@pytest.mark.parametrize("document", [{}, {"keys": []}, {"keys": {}}, {"keys": [1]}, 500, OUTAGE])
async def test_a_key_set_without_a_usable_key_is_a_fault(document):
    foreign = Foreign()
    foreign.web.pages[JWKS_URL] = document
    with pytest.raises(IdentityUnavailable):
        await found(foreign)


async def test_metadata_that_names_no_keys_is_a_fault():
    foreign = Foreign()
    foreign.web.pages[METADATA_URL] = {"issuer": ISSUER}
    with pytest.raises(IdentityUnavailable):
        await found(foreign)


async def test_no_more_than_a_hundred_keys_are_looked_at():
    foreign = Foreign()
    foreign.publish(*[public(OTHER_RSA, kid=f"k{number}") for number in range(100)], public(RSA))
    with pytest.raises(Unauthenticated):
        await found(foreign)


async def test_after_ten_minutes_the_keys_are_asked_for_again():
    foreign = Foreign()
    await found(foreign)
    foreign.publish(public(OTHER_RSA, kid=KID))
    foreign.clock.now += 599
    assert await found(foreign) == RSA.thumbprint()
    foreign.clock.now += 1
    assert await found(foreign) == OTHER_RSA.thumbprint()


async def test_a_withdrawn_key_is_unknown_after_ten_minutes():
    foreign = Foreign()
    await found(foreign)
    foreign.publish(public(OTHER_RSA))
    foreign.clock.now += 600
    with pytest.raises(Unauthenticated):
        await found(foreign)


async def test_an_unknown_name_has_the_keys_asked_for_once_in_half_a_minute():
    foreign = Foreign()
    await found(foreign)
    foreign.clock.now += 30
    foreign.web.fetched.clear()
    for number in range(200):
        with pytest.raises(Unauthenticated):
            await found(foreign, f"random {number}")
    assert foreign.web.fetched == [JWKS_URL]
    foreign.publish(public(RSA), public(OTHER_RSA))
    foreign.clock.now += 29
    with pytest.raises(Unauthenticated):
        await found(foreign, "other")
    foreign.clock.now += 1
    assert await found(foreign, "other") == OTHER_RSA.thumbprint()


async def test_whoever_wants_the_keys_at_once_waits_for_one_fetch():
    foreign = Foreign()
    foreign.web.gate.clear()
    waiting = [asyncio.create_task(found(foreign)) for _ in range(20)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    await asyncio.sleep(0.01)
    foreign.web.gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert set(results[1:]) == {RSA.thumbprint()}
    assert foreign.web.fetched == [METADATA_URL, JWKS_URL]


async def test_an_outage_does_not_sign_anybody_out():
    foreign = Foreign()
    await found(foreign)
    foreign.web.pages[JWKS_URL] = OUTAGE
    foreign.clock.now += 24 * 3600 - 1
    assert await found(foreign) == RSA.thumbprint()
    assert await found(foreign) == RSA.thumbprint()
    assert foreign.web.fetched[2:].count(JWKS_URL) == 1


async def test_keys_that_nobody_could_renew_for_a_day_are_not_believed():
    foreign = Foreign()
    await found(foreign)
    foreign.web.pages[JWKS_URL] = OUTAGE
    foreign.clock.now += 24 * 3600
    with pytest.raises(IdentityUnavailable, match="outage"):
        await found(foreign)


async def test_an_outage_of_the_metadata_does_not_stop_keys_from_being_renewed():
    foreign = Foreign()
    await found(foreign)
    foreign.web.pages[METADATA_URL] = OUTAGE
    foreign.publish(public(OTHER_RSA))
    foreign.clock.now += 600
    assert await found(foreign, "other") == OTHER_RSA.thumbprint()


async def test_whether_an_unknown_key_exists_cannot_be_told_during_an_outage():
    foreign = Foreign()
    await found(foreign)
    foreign.web.pages[JWKS_URL] = OUTAGE
    foreign.clock.now += 30
    for _ in range(3):
        with pytest.raises(IdentityUnavailable):
            await found(foreign, "other")
    assert foreign.web.fetched.count(JWKS_URL) == 2


async def test_with_nothing_at_all_it_is_tried_again_after_a_second():
    foreign = Foreign()
    foreign.web.pages[JWKS_URL] = OUTAGE
    for _ in range(3):
        with pytest.raises(IdentityUnavailable):
            await found(foreign)
    assert foreign.web.fetched.count(JWKS_URL) == 1
    foreign.publish(public(RSA))
    foreign.clock.now += 1
    assert await found(foreign) == RSA.thumbprint()


async def test_a_clock_that_went_back_makes_nothing_last_longer():
    foreign = Foreign()
    await found(foreign)
    foreign.publish(public(OTHER_RSA))
    foreign.clock.now -= 5000
    with pytest.raises(Unauthenticated):
        await found(foreign)
