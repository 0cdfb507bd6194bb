"""Session ids that say whose they are: an upstream's own id, sealed for one principal.

A sealed id conveys no authority: every request is authenticated anew. It only keeps one principal
from using the session of another, or one upstream's with the next, and needs no store. What we have
to remember of the handshake stands in it, too.
"""

import base64
import hmac
import re

from gateway.errors import ProtocolError, UpstreamFailed
from gateway.wire.jsonrpc import INVALID_REQUEST

_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")
"""What a session id may be (2025-11-25, transports, session management)."""
_URLS = "~u"
"""No base64url text ends so."""


def seal(
    key: bytes, upstream: str, principal: str, session: str, *, takes_urls: bool = False
) -> str:
    """Return `session`, an id that `upstream` minted, in a form that `principal` alone can use.

    `takes_urls` is whether the client can send its user to a URL; `says_url` tells it again.

    Raises:
        UpstreamFailed: The id is not visible ASCII.

    """
    if not _VISIBLE_ASCII.fullmatch(session):
        raise UpstreamFailed("The server gave an invalid session id")
    text = base64.urlsafe_b64encode(session.encode()).decode().rstrip("=")
    if takes_urls:
        return f"{text}{_URLS}.{mac(key, upstream, principal, session, _URLS)}"
    return f"{text}.{mac(key, upstream, principal, session)}"


def unseal(key: bytes, upstream: str, principal: str, sealed: str) -> str | None:
    """Return the id that was sealed for this upstream and principal, or `None` for anything else."""
    if not _VISIBLE_ASCII.fullmatch(sealed):
        return None
    takes_urls = says_url(sealed)
    text = sealed.partition(".")[0].removesuffix(_URLS)
    try:
        session = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_").decode("ascii")
        # Sealing again, rather than checking the parts, leaves one spelling of each id.
        expected = seal(key, upstream, principal, session, takes_urls=takes_urls)
    except (ValueError, UpstreamFailed):
        return None
    return session if hmac.compare_digest(expected.encode(), sealed.encode()) else None


def told_by(sealed: str) -> str:
    """Return the id that `sealed` would be the seal of; `unseal` proves it. Empty for what is none."""
    text = sealed.partition(".")[0].removesuffix(_URLS)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_").decode("ascii")
    except ValueError:
        return ""


def says_url(sealed: str) -> bool:
    """Whether `sealed` says that its client can send its user to a URL; `unseal` proves it."""
    return sealed.partition(".")[0].endswith(_URLS)


def not_found(rpc_id: str | int | None) -> ProtocolError:
    """Return the refusal on which a client begins a new session (2025-11-25, transports)."""
    return ProtocolError("Session not found", status=404, rpc_code=INVALID_REQUEST, rpc_id=rpc_id)


def mac(key: bytes, *parts: str) -> str:
    """Return the hex of a keyed hash of `parts`: no two sequences of parts have the same one."""
    # Each part is preceded by its length, so that no two sequences are one text.
    message = b"".join(
        len(octets).to_bytes(4, "big") + octets
        for octets in (part.encode("utf-8", "surrogatepass") for part in parts)
    )
    return hmac.digest(key, message, "sha256").hex()
