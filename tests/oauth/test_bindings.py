"""Refusals that may be submitted: what we signed comes back as it was, and nothing else does."""

import orjson
import pytest
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from gateway.domain.access_requests import Binding
from gateway.errors import Unauthenticated
from gateway.oauth.bindings import TYPE, SignedBindings
from gateway.oauth.keys import KeyRing
from gateway.oauth.tokens import mint, sign, verify_any
from tests.oauth.world import KEYS, NOW, PUBLIC_URL, access_token, client, new_key

HERE = f"{PUBLIC_URL}/access/v1/requests"
OURS = SignedBindings(lambda: KEYS, issuer=PUBLIC_URL, audience=HERE)
BINDING = Binding(
    plane="edge",
    decision="d_1",
    said="hash",
    question="hmac-sha256:00",
    issued_at=NOW + 0.5,
    expires_at=NOW + 600.5,
)


def claims(text: str) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(urlsafe_b64decode(text.split(".")[1].encode()))
    return found


def test_what_was_sealed_is_opened() -> None:
    text = OURS.seal(BINDING)
    assert OURS.open(text) == BINDING
    told = claims(text)
    assert (told["iss"], told["aud"], told["evaluation_id"]) == (PUBLIC_URL, HERE, "d_1")
    assert told["binding_context_members"] == ["agent", "arguments", "protocol_version", "task"]


def test_what_was_changed_is_none_of_ours() -> None:
    text = OURS.seal(BINDING)
    header, payload, signature = text.split(".")
    changed = urlsafe_b64encode(orjson.dumps({**claims(text), "plane": "other"})).decode()
    for other in ("", "x", f"{header}.{changed}.{signature}", f"{header}.{payload}.", text[:-2]):
        assert OURS.open(other) is None


def test_what_somebody_else_signed_is_none_of_ours() -> None:
    theirs = SignedBindings(lambda: KeyRing([new_key()]), issuer=PUBLIC_URL, audience=HERE)
    assert OURS.open(theirs.seal(BINDING)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://another.example"},
        {"aud": f"{PUBLIC_URL}/another"},
        {"aud": None},
        {"plane": 7},
        {"binding_hash": None},
        {"exp": True},
        {"iat": "now"},
    ],
)
def test_what_we_signed_for_another_purpose_is_no_refusal(change: dict[str, object]) -> None:
    told = {**claims(OURS.seal(BINDING)), **change}
    assert OURS.open(sign(told, KEYS, TYPE)) is None


def test_no_token_is_taken_for_the_other() -> None:
    assert OURS.open(mint(access_token(client().client), KEYS)) is None
    with pytest.raises(Unauthenticated):
        verify_any(OURS.seal(BINDING), keys=KEYS, issuer=PUBLIC_URL, now=NOW)


def test_a_token_of_another_type_is_none_of_ours() -> None:
    assert OURS.open(sign(claims(OURS.seal(BINDING)), KEYS, "at+jwt")) is None
