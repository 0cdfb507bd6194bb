"""Where an authorization code may be sent: which redirect URIs can be registered, which match."""

import re
from collections.abc import Collection, Sequence
from urllib.parse import unquote

from gateway.domain.identity import Client
from gateway.oauth.errors import ErrorCode, OAuthError

MOST_REDIRECT_URIS = 10
LONGEST_REDIRECT_URI = 2000

_REFUSED_SCHEMES = frozenset(
    {"javascript", "vbscript", "data", "file", "blob", "filesystem", "about", "view-source", "ftp"}
)
"""What a browser would run, or open on the machine it runs on, or fetch in the clear."""

# RFC 3986 section 2, without "#" and "*": no space, control, backslash, quote or non-ASCII letter.
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()+,;=-]|%[0-9A-Fa-f]{2})+", re.ASCII)
_HIDDEN = re.compile(r"%(?:[01][0-9A-F]|7F)", re.ASCII | re.IGNORECASE)
"""Percent-encoded control characters, among them CR and LF."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_PORT = r"(?::(?P<port>[1-9][0-9]{0,4}))?"
_HTTPS = re.compile(
    rf"https://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]){_PORT}"
    r"(?P<rest>[/?].*)?",
    re.ASCII,
)
_LOOPBACK = re.compile(
    rf"http://(?P<host>127\.0\.0\.1|\[::1\]|localhost){_PORT}(?P<rest>[/?].*)?", re.ASCII
)
_LARGEST_PORT = 65535


def registrable(uris: object, private: Collection[str]) -> tuple[str, ...]:
    """Return those of `uris` that a client may register (RFC 7591 section 2, RFC 8252 section 7).

    Any https URI and any http URI of the loopback interface may be; one with a private scheme only
    if exactly it stands in `private`. An unknown private scheme is left out where something else
    remains: desktop clients register all of their ways home at once.

    Raises:
        OAuthError: `invalid_redirect_uri`: one is dangerous or malformed, or none remains.

    """
    if not isinstance(uris, list) or not 0 < len(uris) <= MOST_REDIRECT_URIS:
        raise OAuthError(
            ErrorCode.INVALID_REDIRECT_URI, "redirect_uris must be a list of 1 to 10 URIs"
        )
    kept = tuple(dict.fromkeys(uri for uri in uris if _is_usable(uri, private)))
    if not kept:
        raise OAuthError(
            ErrorCode.INVALID_REDIRECT_URI,
            "redirect URIs are https, or http on the loopback interface",
            detail="private schemes that are not allowed",
        )
    return kept


def matches(registered: Sequence[str], asked: str) -> bool:
    """Whether `asked` is one of `registered`: the same string.

    Only the port of an http URI of the loopback interface is free (RFC 8252 section 7.3): a native
    client takes whichever it gets.
    """
    if asked in registered:
        return True
    here = _LOOPBACK.fullmatch(asked)
    return (
        here is not None
        and _is_port(here["port"])
        and any(
            (there["host"], there["rest"]) == (here["host"], here["rest"])
            for there in map(_LOOPBACK.fullmatch, registered)
            if there is not None
        )
    )


def is_on_the_device(uri: str) -> bool:
    """Whether any program on the person's machine could be behind `uri`.

    True of loopback addresses and private schemes: neither proves which program it is (RFC 8252
    section 8.6).
    """
    return not uri.startswith("https://")


def is_of_the_device(client: Client) -> bool:
    """Whether `client` is a public one that may run on a person's machine, as several processes."""
    uris = client.redirect_uris
    return client.is_public and (not uris or any(map(is_on_the_device, uris)))


def is_plain_https(url: str) -> bool:
    """Whether `url` is an https URL that could be a redirect URI, too."""
    try:
        return url.startswith("https://") and _is_usable(url, ())
    except OAuthError:
        return False


def shown_host(uri: str) -> str:
    """Return what to show a person of where `uri` leads: host and port, or the private scheme."""
    web = _HTTPS.fullmatch(uri) or _LOOPBACK.fullmatch(uri)
    if web is None:
        return uri.partition(":")[0] + ":"
    return web["host"] if web["port"] is None else f"{web['host']}:{web['port']}"


def _is_usable(uri: object, private: Collection[str]) -> bool:
    """Whether to keep `uri`; what is dangerous refuses the whole set."""
    scheme = _checked_scheme(uri)
    if scheme in {"http", "https"}:
        found = (_HTTPS if scheme == "https" else _LOOPBACK).fullmatch(str(uri))
        if found is None or not _is_port(found["port"]):
            raise _refusal("not https, and not http on the loopback interface")
        return True
    return uri in private


def _checked_scheme(uri: object) -> str:
    """Return the scheme of a URI that nothing in can lead astray."""
    if not isinstance(uri, str) or len(uri) > LONGEST_REDIRECT_URI:
        raise _refusal("not a string of at most 2000 characters")
    if not _CHARACTERS.fullmatch(uri) or _HIDDEN.search(uri):
        raise _refusal("characters that stand in no redirect URI")
    found = _SCHEME.match(uri)
    if found is None or found[1].lower() in _REFUSED_SCHEMES:
        raise _refusal("a scheme that never is a redirect URI's")
    beyond = uri[found.end() :].partition("?")[0]
    authority, _, path = beyond.removeprefix("//").partition("/")
    if "@" in (authority if beyond.startswith("//") else ""):
        raise _refusal("user information")
    if {".", ".."} & set(re.split(r"[/\\]", unquote(f"{authority}/{path}"))):
        raise _refusal("dot segments")
    return found[1].lower()


def _is_port(digits: str | None) -> bool:
    return digits is None or int(digits) <= _LARGEST_PORT


def _refusal(detail: str) -> OAuthError:
    return OAuthError(
        ErrorCode.INVALID_REDIRECT_URI, "a redirect URI is not acceptable", detail=detail
    )
