"""Access tokens as signed JWTs for exactly one resource (RFC 9068, RFC 8707)."""

# JOSE comes from joserfc: `authlib.jose` is deprecated, runs on joserfc itself and goes away in
# Authlib 2.0. Authlib's own RFC 9068 validator accepts a missing `typ` and a list of audiences.
import re
from collections.abc import Mapping
from typing import Any, Never

import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.util import urlsafe_b64decode

from gateway.domain._value import value
from gateway.domain.scripts import ScriptId
from gateway.errors import Unauthenticated
from gateway.oauth.keys import ALGORITHM, KeyRing

TYPE = "at+jwt"
"""RFC 9068 section 2.1; keeps ID tokens and every other JWT out."""

RUN_TYPE = "run+jwt"
"""A token for one program. Another type, so that nobody who does not know what it must not do takes
it for an access token like any other (RFC 8725 section 3.11)."""

_ACCESS_TYPES = frozenset({TYPE, RUN_TYPE})

LEEWAY_S = 60
"""How far another machine's clock may be ahead in `iat` and `nbf`; `exp` has none."""

LONGEST_LIFETIME_S = 24 * 60 * 60
"""Beyond it a token is refused, whoever signed it."""

_LONGEST_TEXT = 8192
_HEADER = {"alg", "typ", "kid"}
_REGISTRY = jws.JWSRegistry(algorithms=[ALGORITHM])
_REQUIRED: dict[str, type] = {
    "iss": str,
    "sub": str,
    "aud": str,
    "client_id": str,
    "client_name": str,
    "scope": str,
    "groups": list,
    "iat": int,
    "exp": int,
    "jti": str,
    "gid": str,
}
_MAY_BE_EMPTY = frozenset({"gid"})

THUMBPRINT = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
"""The SHA-256 of a key in base64url (RFC 7638)."""


@value
class AccessToken:
    """What one of our tokens says. It is not the token: nobody can use it."""

    issuer: str
    subject: str
    """The person's `User.id`; a client that acts for itself is its own subject."""
    audience: str
    """The one resource URI it is for."""
    client_id: str
    client_name: str
    scopes: frozenset[str]
    groups: frozenset[str]
    issued_at: int
    """Seconds since the epoch, like `expires_at`."""
    expires_at: int
    token_id: str
    grant_id: str = ""
    """The family it belongs to; empty where no person granted it, hence exactly where `subject` is
    the client."""
    script: ScriptId | None = None
    """The one program that it is for, where it is for one."""
    bound_to: str = ""
    """The thumbprint of the key whose holder alone may use it (RFC 9449 section 6.1); empty if anybody
    may who has it. Whoever lets somebody in with it has to see to that."""
    subject_token_id: str = ""
    """The token that one for a program was traded for: it is good for no longer."""


def mint(token: AccessToken, keys: KeyRing) -> str:
    """Sign `token` with the newest key and return the JWT."""
    claims = {
        "iss": token.issuer,
        "sub": token.subject,
        "aud": token.audience,
        "client_id": token.client_id,
        "client_name": token.client_name,
        "scope": " ".join(sorted(token.scopes)),
        "groups": sorted(token.groups),
        "iat": token.issued_at,
        "exp": token.expires_at,
        "jti": token.token_id,
        "gid": token.grant_id,
    }
    if token.bound_to:
        claims["cnf"] = {"jkt": token.bound_to}
    typ = TYPE
    if token.script is not None:
        typ = RUN_TYPE
        claims["act"] = _actor(token.script, token.client_id)
        claims["subject_jti"] = token.subject_token_id
    return sign(claims, keys, typ)


def sign(claims: Mapping[str, Any], keys: KeyRing, typ: str) -> str:
    """Sign `claims` with the newest key and return the JWT, of the type `typ`."""
    header = {"alg": ALGORITHM, "typ": typ, "kid": keys.signing.kid}
    return jws.serialize_compact(
        header, orjson.dumps(claims), keys.signing.pair, registry=_REGISTRY
    )


def verify(text: str, *, keys: KeyRing, issuer: str, audience: str, now: float) -> AccessToken:
    """Return what `text` says, signed by us, valid at `now` and made for `audience` alone.

    Raises:
        Unauthenticated: Anything else; `detail` names the check that failed.

    """
    token = verify_any(text, keys=keys, issuer=issuer, now=now)
    if token.audience != audience:
        _refuse("another audience")
    return token


def verify_any(text: str, *, keys: KeyRing, issuer: str, now: float) -> AccessToken:
    """Return what `text` says, signed by us and valid at `now`, whichever endpoint it is for.

    For whoever has to name a token of ours, never to let somebody in.

    Raises:
        Unauthenticated: Anything else; `detail` names the check that failed.

    """
    typ, claims = signed_claims(text, keys, _ACCESS_TYPES)
    for name, kind in _REQUIRED.items():
        # `type`, not `isinstance`: a JSON true would pass as the integer 1.
        empty = claims.get(name) == "" and name not in _MAY_BE_EMPTY
        if type(claims.get(name)) is not kind or empty:
            _refuse(f"claim {name} is missing or malformed")
    if not all(type(group) is str for group in claims["groups"]):
        _refuse("claim groups is malformed")
    if claims["iss"] != issuer:
        _refuse("another issuer")
    _check_times(claims, now)
    return _token(claims, _script(typ, claims))


def signed_claims(text: str, keys: KeyRing, types: frozenset[str]) -> tuple[str, dict[str, Any]]:
    """Return the type, one of `types`, and the claims of a JWT that one of our keys signed.

    Raises:
        Unauthenticated: None did.

    """
    if len(text) > _LONGEST_TEXT:
        _refuse("too long")
    try:
        data = text.encode("ascii")
        # The header is judged before the library reads it: exactly three members, so nothing in
        # it can point to a key elsewhere (RFC 8725 sections 3.1 and 3.10) or ask for extensions.
        header = orjson.loads(urlsafe_b64decode(data.partition(b".")[0]))
        key = _key_of(header, keys, types)
        signed = jws.deserialize_compact(data, key.pair, registry=_REGISTRY)
        claims = orjson.loads(signed.payload or b"")
    except (JoseError, ValueError) as error:
        raise Unauthenticated(_PUBLIC, detail="not a JWT of ours") from error
    if not isinstance(claims, dict):
        _refuse("the claims are no object")
    return header["typ"], claims


def _key_of(header: Any, keys: KeyRing, types: frozenset[str]) -> Any:
    if not isinstance(header, dict) or header.keys() != _HEADER:
        _refuse("the header has missing or foreign members")
    if header["alg"] != ALGORITHM:
        _refuse("another algorithm")
    # What is no text cannot be looked for there: that would be a bug, and told as one.
    if not isinstance(header["typ"], str) or header["typ"] not in types:
        _refuse("a token of another type")
    key = keys.find(header["kid"]) if isinstance(header["kid"], str) else None
    if key is None:
        _refuse("unknown key")
    return key


def _check_times(claims: dict[str, Any], now: float) -> None:
    issued, expires, not_before = claims["iat"], claims["exp"], claims.get("nbf", claims["iat"])
    if type(not_before) is not int:
        _refuse("claim nbf is malformed")
    if now >= expires:
        _refuse("expired")
    if max(issued, not_before) > now + LEEWAY_S:
        _refuse("not yet valid")
    if not 0 < expires - issued <= LONGEST_LIFETIME_S:
        _refuse("the lifetime is out of bounds")


def _bound_to(claims: dict[str, Any]) -> str:
    """Return the key that a token is bound to, in the one way that is known here (RFC 7800)."""
    if "cnf" not in claims:
        return ""
    bound = claims["cnf"]
    key = bound.get("jkt") if isinstance(bound, dict) and len(bound) == 1 else None
    if not isinstance(key, str) or not THUMBPRINT.fullmatch(key):
        _refuse("the token is bound in another way")
    return key


def _actor(script: ScriptId, client_id: str) -> dict[str, Any]:
    """Return who acts: the program, and for it the client (RFC 8693 section 4.1)."""
    return {"sub": script, "act": {"sub": client_id}}


def _script(typ: str, claims: dict[str, Any]) -> ScriptId | None:
    """Return the program that a token of this type is for; one of the other type is for none."""
    actor = claims.get("act")
    if typ == TYPE:
        if actor is not None:
            _refuse("an access token that is for no program names an actor")
        return None
    script = actor.get("sub") if isinstance(actor, dict) else None
    if not (isinstance(script, str) and script) or actor != _actor(
        ScriptId(script), claims["client_id"]
    ):
        _refuse("claim act is missing or malformed")
    if not (isinstance(claims.get("subject_jti"), str) and claims["subject_jti"]):
        _refuse("claim subject_jti is missing or malformed")
    return ScriptId(script)


def _token(claims: dict[str, Any], script: ScriptId | None) -> AccessToken:
    return AccessToken(
        issuer=claims["iss"],
        subject=claims["sub"],
        audience=claims["aud"],
        client_id=claims["client_id"],
        client_name=claims["client_name"],
        scopes=frozenset(claims["scope"].split(" ")),
        groups=frozenset(claims["groups"]),
        issued_at=claims["iat"],
        expires_at=claims["exp"],
        token_id=claims["jti"],
        grant_id=claims["gid"],
        script=script,
        bound_to=_bound_to(claims),
        subject_token_id="" if script is None else claims["subject_jti"],
    )


_PUBLIC = "the access token is not valid for this endpoint"


def _refuse(detail: str) -> Never:
    raise Unauthenticated(_PUBLIC, detail=detail)
