"""The two cookies of a browser: read by their one name, set so that no script and no site gets them."""

from collections.abc import Callable, Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gateway.signin.browser import Browser, CookieNames, Random

_MOST: Final = 1_000
"""Cookies that are looked at: browsers keep some 180 of a site, and a head could hold 30,000."""


def read_cookies(headers: Iterable[str]) -> dict[str, str]:
    """Return the cookies that stand in these header fields, as they stand there: the first of very many.

    Ours need no quotes, and to undo those of strangers can take seconds: Python looks through the rest of a
    value once for each backslash.
    """
    cookies: dict[str, str] = {}
    headers = list(headers)
    for one in ";".join(headers).split(";", _MOST)[: _MOST if headers else 0]:
        name, _, content = one.partition("=")
        cookies[name.strip()] = content.strip()
    return cookies


class FromBrowser(Request):
    """A request of a browser."""

    @property
    def cookies(self) -> dict[str, str]:
        """What `read_cookies` finds, looked for once."""
        if not hasattr(self, "_cookies"):
            self._cookies = read_cookies(self.headers.getlist("cookie"))
        return self._cookies


class BrowserCookies:
    """Reads and sets what tells one browser from another."""

    def __init__(
        self,
        names: CookieNames,
        client_address: Callable[[Scope], str],
        *,
        random: Random,
        session_s: float,
    ) -> None:
        """Have a browser keep its session for `session_s` seconds."""
        self._names = names
        self._random = random
        self._client_address = client_address
        self._session_s = int(session_s)

    def browser(self, request: Request) -> Browser:
        """Return what `request` tells of its browser, unverified."""
        return Browser.of(
            self._names,
            request.cookies,
            source_ip=self._client_address(request.scope),
            user_agent=request.headers.get("user-agent", ""),
        )

    def known(self, browser: Browser) -> Browser:
        """Return `browser` with a secret, which `bind` has it keep."""
        return browser.bound(self._random)

    def bind(self, response: Response, browser: Browser) -> Response:
        """Have the browser keep its secret, until it is closed."""
        self._set(response, self._names.browser, browser.secret, None)
        return response

    def sign_in(self, response: Response, session: str) -> Response:
        """Have the browser keep its session."""
        self._set(response, self._names.session, session, self._session_s)
        return response

    def sign_out(self, response: Response) -> Response:
        """Have the browser forget its session."""
        self._set(response, self._names.session, "", 0)
        return response

    def _set(self, response: Response, name: str, content: str, seconds: int | None) -> None:
        # Lax: clients and identity providers lead here from their own sites, by a plain link.
        response.set_cookie(
            name,
            content,
            max_age=seconds,
            path="/",
            secure=self._names.secure,
            httponly=True,
            samesite="lax",
        )
