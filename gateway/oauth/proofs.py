"""DPoP proofs: a request's sender holds a key, and says so for this request alone (RFC 9449).

A proof is judged by what it says, what was asked and what time it is; whether it comes for the first
time is not seen here.
"""

import base64
import hmac
import math
import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any, Final, Never
from urllib.parse import unquote_to_bytes, urlsplit

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey

from gateway.domain._value import value
from gateway.domain.bounded import digest_of
from gateway.domain.identity import Proof
from gateway.wire.jsontext import read_exact

TYPE: Final = "dpop+jwt"

ALGORITHMS: Final = ("ES256", "EdDSA", "Ed25519")
"""With what a proof may be signed; the last two are one (RFC 9864), under the old and the new name."""

LONGEST_WINDOW_S: Final = 300.0

_LONGEST_PROOF: Final = 4096
_LONGEST_JTI: Final = 128
_JSON_DEPTH: Final = 4
_SEGMENTS: Final = 3
_SEGMENT = re.compile(rb"[A-Za-z0-9_-]+", re.ASCII)
_HEADER: Final = frozenset({"typ", "alg", "jwk"})

_BESIDE: Final = frozenset({"alg", "use", "kid", "key_ops", "ext"})
"""What a key may say of itself beside what it is. Of a private or symmetric key there is more."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}", re.ASCII)


@value
class _Kind:
    """One kind of key that can sign a proof, and what makes up its public half."""

    key: type[ECKey] | type[OKPKey]
    curve: str
    members: frozenset[str]


_EC = _Kind(key=ECKey, curve="P-256", members=frozenset({"kty", "crv", "x", "y"}))
_OKP = _Kind(key=OKPKey, curve="Ed25519", members=frozenset({"kty", "crv", "x"}))
_KINDS: Final = {"ES256": _EC, "EdDSA": _OKP, "Ed25519": _OKP}


@value
class Shown:
    """What a proof has to be for."""

    method: str
    urls: tuple[str, ...]
    """Under which the request's target is known: never what the request says of itself."""
    token: str | None = field(repr=False, default=None)
    """The access token that came with it; at the token endpoint there is none yet."""


def judge(text: str, shown: Shown, *, window_s: float, now: float) -> Proof:
    """Return what the proof `text` proves of whoever sent the request `shown` (RFC 9449 section 4.3).

    Raises:
        ValueError: It proves nothing; the text names the check that failed, and is no part of it.

    """
    header, claims, signed, signature = _read(text)
    name, key = _key_of(header)
    _check_request(claims, shown)
    made_at = _date(claims)
    if abs(now - made_at) > window_s:
        _refuse("made too long ago, or too far ahead")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not 0 < len(jti.encode(errors="surrogatepass")) <= _LONGEST_JTI:
        _refuse("claim jti is missing or malformed")
    if not _signs(name, key, signed, signature):
        _refuse("not signed by the key that it brings")
    thumbprint = key.thumbprint()
    use = digest_of(thumbprint, jti)
    return Proof(key=thumbprint, use=use, made_at=made_at, until=made_at + window_s)


def same_target(said: str, url: str) -> bool:
    """Whether two URLs name one target, in however many spellings (RFC 3986 section 6.2).

    A query or a fragment does not count (RFC 9449 section 4.3, check 9).
    """
    try:
        return _normal(said) == _normal(url)
    except ValueError:
        return False


def _read(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any], bytes, bytes]:
    """Return header, claims, what was signed, and the signature."""
    if len(text) > _LONGEST_PROOF:
        _refuse("too long")
    parts = text.encode("ascii", "replace").split(b".")
    if len(parts) != _SEGMENTS or not all(map(_SEGMENT.fullmatch, parts)):
        _refuse("not a signed JWT")
    header, claims = (_object(part) for part in parts[:2])
    return header, claims, parts[0] + b"." + parts[1], _decoded(parts[2])


def _object(part: bytes) -> Mapping[str, Any]:
    try:
        found = read_exact(_decoded(part), _JSON_DEPTH)
    except ValueError:
        # Without a cause: the text of the error could hold a piece of the proof.
        found = None
    if not isinstance(found, dict):
        _refuse("not a signed JWT")
    return found


def _key_of(header: Mapping[str, Any]) -> tuple[str, Key]:
    """Return the algorithm and the key of a proof, judged before any library reads them."""
    if header.get("typ") != TYPE:
        _refuse("another type")
    name, jwk = header.get("alg"), header.get("jwk")
    if not isinstance(name, str) or name not in _KINDS:
        _refuse("another algorithm")
    # No `crit`, and nothing that could point to a key elsewhere (RFC 8725 section 3.10).
    if header.keys() != _HEADER or not isinstance(jwk, dict):
        _refuse("the header has missing or foreign members")
    return name, _public(jwk, name)


def _public(jwk: Mapping[str, Any], name: str) -> Key:
    kind = _KINDS[name]
    if jwk.keys() - _BESIDE != kind.members:
        _refuse("the key is private, symmetric or of another kind")
    if jwk.get("alg", name) != name:
        _refuse("the key is for another algorithm")
    words = {member: jwk[member] for member in kind.members}
    if (words["kty"], words["crv"]) != (kind.key.key_type, kind.curve):
        _refuse("the key is of another kind")
    try:
        return kind.key.import_key(words)
    except (JoseError, ValueError, TypeError):
        _refuse("the key cannot be used")


def _check_request(claims: Mapping[str, Any], shown: Shown) -> None:
    if claims.get("htm") != shown.method:
        _refuse("for another method")
    htu = claims.get("htu")
    if not isinstance(htu, str) or not any(same_target(htu, url) for url in shown.urls):
        _refuse("for another URL")
    if shown.token is not None and not _is_hash_of(shown.token, claims.get("ath")):
        _refuse("for another access token")


def _is_hash_of(token: str, said: object) -> bool:
    digest = sha256(token.encode(errors="surrogatepass")).digest()
    expected = base64.urlsafe_b64encode(digest).rstrip(b"=")
    return isinstance(said, str) and hmac.compare_digest(
        said.encode(errors="surrogatepass"), expected
    )


def _date(claims: Mapping[str, Any]) -> float:
    """Return when it was made: a NumericDate (RFC 7519 section 2)."""
    found = claims.get("iat")
    # A JSON true would pass as the integer 1.
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        _refuse("claim iat is missing or malformed")
    return float(found)


def _signs(name: str, key: Key, signed: bytes, signature: bytes) -> bool:
    # The algorithm itself: the registry around it warns of EdDSA's name, which clients still use.
    try:
        return jws.JWSRegistry.algorithms[name].verify(signed, signature, key)
    except (JoseError, ValueError):
        return False


def _decoded(segment: bytes) -> bytes:
    return base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))


def _normal(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and path of an absolute http URL in one spelling of all.

    Raises:
        ValueError: It is none.

    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError("not an http URL")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("not a URL")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return parts.scheme, parts.hostname, port, _without_dots(_ESCAPED.sub(_unescaped, parts.path))


def _unescaped(found: re.Match[str]) -> str:
    """Return an octet as itself if it need not be escaped (RFC 3986 section 6.2.2.2)."""
    octet = unquote_to_bytes(found[0])
    return octet.decode() if octet[0] in _UNRESERVED else found[0].upper()


def _without_dots(path: str) -> str:
    """Return `path` without `.` and `..` (RFC 3986 section 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments[1:]:
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def _refuse(why: str) -> Never:
    # Without a cause, too: what a library says of a text may repeat it.
    raise ValueError(why) from None
