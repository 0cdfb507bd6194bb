"""What counts as a credential at an endpoint, and where credentials never go."""

import base64
import json

import pytest

from tests.e2e.posting import Poster, body_of, mirrored, modern_params
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.e2e.sockets import Answered, Pairs, exchange, head

PARAMS = {"name": "allowed", "arguments": {}}


def ask(poster: Poster, *extra: tuple[str, str], path: str = "", body: bytes = b"") -> Answered:
    """Make a call with nothing but `extra` for a credential."""
    body = body or body_of("tools/call", modern_params(PARAMS))
    pairs: Pairs = [pair for pair in poster.fields if pair[0] != "Authorization"]
    pairs += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    pairs += [*mirrored("tools/call", PARAMS), *extra]
    return exchange(poster.url, head("POST", path or poster.path, pairs) + body)


def challenge_of(answered: Answered) -> str:
    assert answered.status == 401
    return answered.headers["www-authenticate"]


def test_no_token_is_no_error_but_a_challenge(poster: Poster, raw: Raw) -> None:
    challenge = challenge_of(ask(poster))
    url = f"{poster.gateway.url}/.well-known/oauth-protected-resource/mcp/raw"
    assert f'resource_metadata="{url}"' in challenge
    assert "error" not in challenge
    assert 'scope="' in challenge
    assert raw.seen == []


def test_a_token_in_the_query_never_counts(poster: Poster, raw: Raw) -> None:
    path = f"{poster.path}?access_token={poster.token}"
    assert "error" not in challenge_of(ask(poster, path=path))
    assert raw.seen == []


def test_a_query_beside_a_good_token_does_not_reach_the_server(poster: Poster, raw: Raw) -> None:
    authorization = ("Authorization", f"Bearer {poster.token}")
    answered = ask(poster, authorization, path=f"{poster.path}?access_token=canary&a=b")
    assert answered.status == 200
    assert b"canary" not in json.dumps(dict(raw.seen[0].headers)).encode() + raw.seen[0].body


@pytest.mark.parametrize(
    "spelt",
    [
        ("Cookie", "access_token={}"),
        ("X-Access-Token", "{}"),
        ("Proxy-Authorization", "Bearer {}"),
        ("Authorization", "Basic {}"),
        ("Authorization", "{}"),
        ("Authorization", "DPoP {}"),
    ],
)
def test_a_token_anywhere_else_never_counts(
    poster: Poster, raw: Raw, spelt: tuple[str, str]
) -> None:
    name, text = spelt
    challenge_of(ask(poster, (name, text.format(poster.token))))
    assert raw.seen == []


def test_a_token_for_another_endpoint_is_refused(poster: Poster, raw: Raw) -> None:
    other = poster.gateway.token("notes")
    challenge = challenge_of(ask(poster, ("Authorization", f"Bearer {other}")))
    url = f"{poster.gateway.url}/.well-known/oauth-protected-resource/mcp/raw"
    assert challenge.startswith('Bearer error="invalid_token"')
    assert f'resource_metadata="{url}"' in challenge
    assert raw.seen == []


def altered(token: str) -> dict[str, str]:
    """The same token, tampered with in the ways that readers of JWTs have fallen for."""
    head_, body, signature = token.split(".")

    def text(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    def parsed(part: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=="))
        return found

    header, claims = parsed(head_), parsed(body)
    more = text({**claims, "scope": "tools:list tools:call tools:write", "sub": "somebody"})
    return {
        "more-scopes": f"{head_}.{more}.{signature}",
        "no-algorithm": f"{text({**header, 'alg': 'none'})}.{body}.",
        "no-signature": f"{head_}.{body}.",
        "another-algorithm": f"{text({**header, 'alg': 'HS256'})}.{body}.{signature}",
        "another-key": f"{text({**header, 'kid': '../../x'})}.{body}.{signature}",
        "another-type": f"{text({**header, 'typ': 'JWT'})}.{body}.{signature}",
        "a-key-of-its-own": f"{text({**header, 'jku': 'http://127.0.0.1/'})}.{body}.{signature}",
        "a-letter-less": token[:-1],
        "a-space-inside": f"{token} {token}",
        "empty": "",
    }


@pytest.mark.parametrize("case", sorted(altered("e30.e30.e30")))
def test_a_token_that_was_tampered_with_is_refused(poster: Poster, raw: Raw, case: str) -> None:
    token = altered(poster.token)[case]
    challenge_of(ask(poster, ("Authorization", f"Bearer {token}")))
    assert raw.seen == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_no_credential_of_a_client_reaches_a_server(poster: Poster, raw: Raw, era: str) -> None:
    sent = (
        ("Cookie", "session=canary"),
        ("Proxy-Authorization", "Basic canary"),
        ("DPoP", "canary.canary.canary"),
        ("X-Api-Key", "canary"),
        ("X-Forwarded-For", "canary"),
        ("Forwarded", "for=canary"),
        ("User-Agent", "canary"),
    )
    getattr(poster, era)("tools/call", PARAMS, *sent)
    (seen,) = raw.seen
    assert not {"authorization", "cookie", "proxy-authorization", "dpop", "x-api-key"} & set(
        seen.headers
    )
    everything = json.dumps(dict(seen.headers)).encode() + seen.body
    assert b"canary" not in everything
    assert poster.token.encode() not in everything


def test_a_client_that_was_removed_is_refused_at_once(gateway: Corridor, raw: Raw) -> None:
    leaver = Poster(gateway, "raw", name="leaver")
    assert leaver.call("allowed").status == 200
    raw.forget()
    gateway.running.rows("clients", "remove", "leaver-raw")
    challenge_of(leaver.call("allowed"))
    assert raw.seen == []


def test_a_server_that_is_not_configured_is_not_found_with_or_without_a_token(
    poster: Poster,
) -> None:
    url = poster.url.replace("/raw", "/nowhere")
    for pairs in (poster.fields, [p for p in poster.fields if p[0] != "Authorization"]):
        octets = head("POST", "/mcp/nowhere", [*pairs, ("Content-Length", "0")])
        assert exchange(url, octets).status == 404
