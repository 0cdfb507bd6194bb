"""The command line as an OAuth client of the gateway, at its public endpoints like any other."""

import base64
import hashlib
import http.client
import ipaddress
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urlencode, urlsplit

from gateway.admin.people import ENDPOINT, SCOPE
from gateway.domain._value import value

CLIENT_ID = "douane-cli"
"""Every gateway knows this public client."""

_METADATA = "/.well-known/oauth-authorization-server"
_DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
_TIMEOUT_S = 10.0
_LARGEST_ANSWER_BYTES = 256 * 1024


class Unreachable(Exception):
    """The gateway gave no usable answer."""


class Refused(Exception):
    """The gateway answered with an OAuth error (RFC 6749 section 5.2)."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error


class InvalidGrant(Refused):
    """The code or token is used up, revoked or expired."""


@value
class Device:
    """A device grant under way (RFC 8628 section 3.2)."""

    code: str = field(repr=False)
    user_code: str
    url: str
    whole_url: str
    """With the user code in it; empty if there is none."""
    expires_in_s: float
    interval_s: float


@value
class PublicEndpoints:
    """Where one gateway's authorization server is."""

    issuer: str
    authorize: str
    exchange: str
    revoke: str
    device: str

    @classmethod
    def of(cls, issuer: str) -> "PublicEndpoints":
        """Ask the gateway at `issuer`, which must be itself and do PKCE and `iss`.

        Raises:
            Unreachable: It is not, or does not answer.

        """
        found = _fetch(urllib.request.Request(issuer + _METADATA))  # noqa: S310 - http(s) only
        if found.get("issuer") != issuer:
            # RFC 8414 section 3.3; also what `auth.mode: external` leads to.
            raise Unreachable(f"{issuer} is not its own authorization server")
        if "S256" not in found.get("code_challenge_methods_supported", []):
            raise Unreachable(f"{issuer} does not offer PKCE with S256")
        if found.get("authorization_response_iss_parameter_supported") is not True:
            raise Unreachable(f"{issuer} does not name itself in its answers")
        return cls(
            issuer=issuer,
            authorize=_own(issuer, found, "authorization_endpoint"),
            exchange=_own(issuer, found, "token_endpoint"),
            revoke=_own(issuer, found, "revocation_endpoint"),
            device=_own(issuer, found, "device_authorization_endpoint"),
        )

    def authorization_url(self, *, redirect_uri: str, state: str, verifier: str) -> str:
        """Return where a person's browser begins (RFC 6749 section 4.1.1)."""
        challenge = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": CLIENT_ID,
            "redirect_uri": redirect_uri,
            "scope": SCOPE,
            "resource": self.issuer + ENDPOINT,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{self.authorize}?{urlencode(query)}"

    def redeem(self, code: str, *, redirect_uri: str, verifier: str) -> dict[str, Any]:
        """Trade a code for tokens.

        Raises:
            Refused: The gateway does not take it.
            Unreachable: It gave no usable answer.

        """
        return self._ask(
            "authorization_code", code=code, redirect_uri=redirect_uri, code_verifier=verifier
        )

    def refresh(self, refresh_token: str) -> dict[str, Any]:
        """Trade a refresh token for the next tokens; see `redeem`."""
        return self._ask("refresh_token", refresh_token=refresh_token)

    def begin_device(self) -> Device:
        """Begin a device grant.

        Raises:
            Refused: The gateway does not allow it.
            Unreachable: It gave no usable answer.

        """
        target = {"resource": self.issuer + ENDPOINT, "scope": SCOPE}
        answer = _post(self.device, {"client_id": CLIENT_ID, **target})
        try:
            return Device(
                code=str(answer["device_code"]),
                user_code=str(answer["user_code"]),
                url=str(answer["verification_uri"]),
                whole_url=str(answer.get("verification_uri_complete", "")),
                expires_in_s=float(answer["expires_in"]),
                interval_s=float(answer.get("interval", 5)),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Unreachable("the gateway's answer is not one of RFC 8628") from error

    def poll_device(self, device: Device) -> dict[str, Any]:
        """Ask once whether the person has answered (RFC 8628 section 3.4); see `redeem`."""
        return self._ask(_DEVICE_CODE, device_code=device.code)

    def end(self, token: str) -> None:
        """Revoke a token, and every other of its grant (RFC 7009).

        Raises:
            Refused: The gateway does not.
            Unreachable: It gave no usable answer.

        """
        _post(self.revoke, {"client_id": CLIENT_ID, "token": token})

    def _ask(self, grant_type: str, **parameters: str) -> dict[str, Any]:
        form = {"grant_type": grant_type, "client_id": CLIENT_ID, **parameters}
        return _post(self.exchange, {**form, "resource": self.issuer + ENDPOINT})


def _own(issuer: str, metadata: Mapping[str, Any], name: str) -> str:
    url = metadata.get(name)
    if not isinstance(url, str) or not url.startswith(issuer + "/"):
        raise Unreachable(f"{issuer} names endpoints that are not its own")
    return url


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would take a secret elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(url: str, form: Mapping[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(url, data=urlencode(form).encode())  # noqa: S310 - http(s) only
    return _fetch(request)


def _fetch(request: urllib.request.Request) -> dict[str, Any]:
    handlers: list[urllib.request.BaseHandler] = [_Straight()]
    if _is_here(request.full_url):
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
            return _object(answer.read(_LARGEST_ANSWER_BYTES), request)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(error, request) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(f"{_origin(request)} does not answer: {reason}") from error


def _refused(error: urllib.error.HTTPError, request: urllib.request.Request) -> Exception:
    try:
        answer = _object(error.read(_LARGEST_ANSWER_BYTES), request)
        code = str(answer["error"])
    except (Unreachable, KeyError, OSError, http.client.HTTPException):
        return Unreachable(f"{_origin(request)} answered with HTTP status {error.code}")
    kind = InvalidGrant if code == "invalid_grant" else Refused
    return kind(code, str(answer.get("error_description", "")))


def _object(body: bytes, request: urllib.request.Request) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"{_origin(request)} answered with something else than JSON") from error
    if not isinstance(content, dict):
        raise Unreachable(f"{_origin(request)} answered with something else than an object")
    return content


def _origin(request: urllib.request.Request) -> str:
    return f"{request.type}://{request.host}"


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
