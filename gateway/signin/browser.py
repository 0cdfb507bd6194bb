"""What tells one browser from another: its two cookies, and the tokens in our forms."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Self

from gateway.domain._value import value
from gateway.signin.errors import Forged

Random = Callable[[int], bytes]

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_LONGEST_USER_AGENT = 200


def new_secret(random: Random) -> str:
    """Return 256 random bits in base64url."""
    return base64.urlsafe_b64encode(random(32)).rstrip(b"=").decode()


def digest(secret: str) -> str:
    """Return the SHA-256 of `secret` in hex: what is stored of it."""
    # It holds 256 random bits: nothing to guess, hence nothing to slow down.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@value
class CookieNames:
    """What our cookies are called.

    On https their names begin with `__Host-`, which only this very host can set (RFC 6265bis
    section 4.1.3.2); a browser would not take such a cookie over http.
    """

    session: str
    browser: str
    secure: bool

    @classmethod
    def of(cls, url: str, kind: str = "") -> Self:
        """Name the cookies of the gateway at `url`.

        Another listener of the same host has a `kind` of its own: browsers keep cookies by host,
        whatever the port (RFC 6265 section 8.5).
        """
        secure = url.startswith("https://")
        prefix = "__Host-" if secure else ""
        name = f"{prefix}douane{kind}"
        return cls(session=f"{name}-session", browser=f"{name}-browser", secure=secure)


@value
class Browser:
    """What a request tells of the browser that sent it, unverified."""

    secret: str = field(repr=False, default="")
    """The cookie that binds what this browser begins to it; empty if it has none."""
    session: str = field(repr=False, default="")
    """The cookie of a signed-in browser; empty if it has none."""
    source_ip: str = ""
    user_agent: str = ""

    @classmethod
    def of(
        cls, names: CookieNames, cookies: Mapping[str, str], *, source_ip: str, user_agent: str
    ) -> Self:
        """Read the cookies; one that we cannot have set is none."""
        return cls(
            secret=_ours(cookies.get(names.browser, "")),
            session=_ours(cookies.get(names.session, "")),
            source_ip=source_ip,
            user_agent="".join(filter(str.isprintable, user_agent))[:_LONGEST_USER_AGENT],
        )

    def bound(self, random: Random) -> Self:
        """Return this browser with a secret: its own, or a new one for it to keep."""
        return self if self.secret else replace(self, secret=new_secret(random))

    def token(self, form: str, *bound: str) -> str:
        """Return what our page of `form` carries for this browser: nobody else can make it."""
        parts = b"".join(len(part).to_bytes(4) + part for part in map(str.encode, (form, *bound)))
        return hmac.new(self.secret.encode(), parts, "sha256").hexdigest()

    def require(self, token: str, form: str, *bound: str) -> None:
        """Go on only if `token` is this browser's for `form`, bound to the same things.

        Raises:
            Forged: It is not, or the browser has no cookie to tell.

        """
        expected = self.token(form, *bound)
        given = token.encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(given, expected.encode()) or not self.secret:
            raise Forged


def _ours(cookie: str) -> str:
    return cookie if _SECRET.fullmatch(cookie) else ""
