"""Which URLs of somebody else's are fit to be used."""

import re
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]{1,2048}")


def usable(url: object) -> str:
    """Return `url`, which may be sent to, or be opened in a person's browser.

    It is https, or http on this machine (MCP 2026-07-28, communication security), so that no
    `javascript:` reaches a browser, and names nobody and no fragment.

    Raises:
        ValueError: Anything else.

    """
    if not isinstance(url, str) or not _VISIBLE_ASCII.fullmatch(url) or "\\" in url:
        raise ValueError("no URL")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ValueError("a URL that is not https")
    if not parts.hostname or "@" in parts.netloc or "#" in url:
        raise ValueError("a URL with user info, a fragment or no host")
    _ = parts.port  # raises ValueError when it is no port
    return url


def usable_issuer(url: object) -> str:
    """Return `url`, which is fit to name an authorization server (RFC 8414 section 2).

    Raises:
        ValueError: Anything else.

    """
    issuer = usable(url)
    if "?" in issuer:
        raise ValueError("an issuer with a query")
    return issuer


def origin(url: str) -> str:
    """Return scheme, host and port of `url`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def covers(resource: str, url: str) -> bool:
    """Whether `resource`, as an upstream names itself, stands for its endpoint `url`.

    It is the same URL, or one above it on the same origin: servers with one endpoint name
    themselves by their origin (MCP 2026-07-28, canonical server URI).
    """
    if resource == url:
        return True
    if not _VISIBLE_ASCII.fullmatch(resource):
        # To take another host apart takes time quadratic in its length: it is normalised.
        return False
    try:
        ours, theirs = urlsplit(url), urlsplit(resource)
        same = _place(ours) == _place(theirs)
    except ValueError:
        return False
    if theirs.query or "#" in resource or "@" in theirs.netloc or not same:
        return False
    above = theirs.path.rstrip("/") + "/"
    return (ours.path.rstrip("/") + "/").startswith(above)


def with_query(url: str, parameters: dict[str, str]) -> str:
    """Return `url` with `parameters` behind its own query (RFC 6749 section 3.1).

    Raises:
        ValueError: Its own query says one of them already.

    """
    parts = urlsplit(url)
    if {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} & parameters.keys():
        raise ValueError("a URL that says our parameters for us")
    query = "&".join(text for text in (parts.query, urlencode(parameters)) if text)
    return parts._replace(query=query).geturl()


def _place(parts: SplitResult) -> tuple[str, str | None, int | None]:
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default
