"""What a client says of itself, and what of it is believed (RFC 7591 section 2)."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.identity import AuthMethod
from gateway.oauth.builtin import AUTHORIZATION_CODE, DEVICE_CODE, REFRESH_TOKEN
from gateway.oauth.client_keys import public_keys
from gateway.oauth.clients import LONGEST_NAME
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.redirects import registrable
from gateway.oauth.resources import SCOPES

_SELF_SERVICE = (AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE)
"""Grants behind which a person stands, and only those: nobody vouches for the client itself."""

_WEB_PAGES = ("client_uri", "logo_uri", "tos_uri", "policy_uri")
_WEB_PAGE = re.compile(
    r"https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?"
    r"(?:[/?#][A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)?",
    re.ASCII,
)
_HERE = re.compile(
    r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?"
    r"(?:[/?#][A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)?",
    re.ASCII,
)
"""Pages of programs under development, on their own machine: not refused, and shown to nobody."""
_LONGEST_URL = 2000
_MOST_WORDS = 50


@value
class Description:
    """What is kept of a client's metadata."""

    name: str
    """Empty if it did not say."""
    auth_method: AuthMethod
    redirect_uris: tuple[str, ...]
    grants: tuple[str, ...]
    jwks: str
    """For `private_key_jwt` alone."""
    homepage: str
    scopes: tuple[str, ...]
    """Those of its wishes that exist; not a ceiling."""
    application_type: str
    holds_key: bool
    """See `Client.holds_key`."""


def described(metadata: Mapping[str, Any], private_redirects: Collection[str]) -> Description:
    """Return what `metadata` says, without what we do not know or do not give.

    Nothing that it names is fetched.

    Raises:
        OAuthError: `invalid_redirect_uri` or `invalid_client_metadata` (RFC 7591 section 3.2.2).

    """
    grants = _grants(metadata)
    redirects: tuple[str, ...] = ()
    if AUTHORIZATION_CODE in grants:
        redirects = registrable(metadata.get("redirect_uris"), private_redirects)
    method = _auth_method(metadata)
    for name in _WEB_PAGES:
        _check_web_page(metadata, name)
    return Description(
        name=_name(metadata),
        auth_method=method,
        redirect_uris=redirects,
        grants=grants,
        jwks=_jwks(metadata, method),
        homepage=_homepage(metadata),
        scopes=_scopes(metadata),
        application_type=_application_type(metadata),
        holds_key=_holds_key(metadata),
    )


def _name(metadata: Mapping[str, Any]) -> str:
    name = metadata.get("client_name", "")
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise _refusal("client_name must be a text of at most 80 characters")
    # Not printable are also the marks that turn the direction of writing, and what has no width:
    # with them a name reads as another at the consent page.
    if not name.isprintable() or name != name.strip():
        raise _refusal("client_name must be printable")
    return name


def _auth_method(metadata: Mapping[str, Any]) -> AuthMethod:
    method = metadata.get("token_endpoint_auth_method", AuthMethod.BASIC.value)
    if not isinstance(method, str) or method not in set(AuthMethod):
        raise _refusal("token_endpoint_auth_method is not supported")
    return AuthMethod(method)


def _grants(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the grants it may use; clients ask for all they know, and get what there is."""
    asked = _words(metadata, "grant_types", default=(AUTHORIZATION_CODE, REFRESH_TOKEN))
    responses = _words(metadata, "response_types", default=("code",))
    grants = tuple(grant for grant in _SELF_SERVICE if grant in asked)
    if not {AUTHORIZATION_CODE, DEVICE_CODE} & set(grants):
        raise _refusal("grant_types must include authorization_code")
    if AUTHORIZATION_CODE in grants and "code" not in responses:
        raise _refusal("response_types must include code")
    return grants


def _words(metadata: Mapping[str, Any], name: str, *, default: tuple[str, ...]) -> tuple[str, ...]:
    words = metadata.get(name, list(default))
    if (
        not isinstance(words, list)
        or len(words) > _MOST_WORDS
        or not all(isinstance(word, str) for word in words)
    ):
        raise _refusal(f"{name} must be a list of texts")
    return tuple(words)


def _jwks(metadata: Mapping[str, Any], method: AuthMethod) -> str:
    if "jwks_uri" in metadata:
        # Keys that come by reference could be exchanged by whoever holds that server, unseen.
        raise _refusal("jwks_uri is not supported: send jwks")
    if "jwks" not in metadata and method is not AuthMethod.PRIVATE_KEY_JWT:
        return ""
    keys = public_keys(metadata.get("jwks"))
    return keys if method is AuthMethod.PRIVATE_KEY_JWT else ""


def _check_web_page(metadata: Mapping[str, Any], name: str) -> None:
    url = metadata.get(name) or ""
    if not isinstance(url, str) or len(url) > _LONGEST_URL or (url and not _is_web_page(url)):
        raise _refusal(f"{name} must be an https URL")


def _is_web_page(url: str) -> bool:
    return _WEB_PAGE.fullmatch(url) is not None or _HERE.fullmatch(url) is not None


def _homepage(metadata: Mapping[str, Any]) -> str:
    url: str = metadata.get("client_uri") or ""
    return url if url.startswith("https://") else ""


def _scopes(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    asked = metadata.get("scope") or ""
    if not isinstance(asked, str):
        raise _refusal("scope must be a text")
    words = set(asked.split(" "))
    return tuple(scope for scope in SCOPES if scope in words)


def _application_type(metadata: Mapping[str, Any]) -> str:
    kind = metadata.get("application_type")
    return kind if isinstance(kind, str) and kind in {"web", "native"} else ""


def _holds_key(metadata: Mapping[str, Any]) -> bool:
    """Return what a client says of itself (RFC 9449 section 5.2)."""
    said = metadata.get("dpop_bound_access_tokens", False)
    if not isinstance(said, bool):
        raise _refusal("dpop_bound_access_tokens must be true or false")
    return said


def _refusal(public: str) -> OAuthError:
    return OAuthError(ErrorCode.INVALID_CLIENT_METADATA, public)
