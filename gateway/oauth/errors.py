"""How the authorization server says no (RFC 6749 sections 4.1.2.1 and 5.2)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from gateway.errors import Refusal


class ErrorCode(StrEnum):
    """The `error` member of an answer; RFC 6749's own unless noted."""

    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    INVALID_GRANT = "invalid_grant"
    UNAUTHORIZED_CLIENT = "unauthorized_client"
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"
    INVALID_SCOPE = "invalid_scope"
    ACCESS_DENIED = "access_denied"
    INVALID_TARGET = "invalid_target"
    """RFC 8707: the resource is missing, unknown or not the client's."""
    INVALID_AUTHORIZATION_DETAILS = "invalid_authorization_details"
    """RFC 9396 section 5: they are malformed, or ask for what cannot be had."""
    INVALID_DPOP_PROOF = "invalid_dpop_proof"
    """RFC 9449 section 5: the proof that the client holds a key is missing or not valid."""
    INVALID_REDIRECT_URI = "invalid_redirect_uri"
    """RFC 7591 section 3.2.2, like the next one."""
    INVALID_CLIENT_METADATA = "invalid_client_metadata"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - an error
    """RFC 6750: the initial access token of a registration is none of ours."""
    AUTHORIZATION_PENDING = "authorization_pending"
    """RFC 8628 section 3.5, like the next two: the person has not answered yet."""
    SLOW_DOWN = "slow_down"
    EXPIRED_TOKEN = "expired_token"  # noqa: S105 - an error
    LOGIN_REQUIRED = "login_required"
    """OpenID Connect Core section 3.1.2.6, like the next one: nobody may be asked to sign in."""
    CONSENT_REQUIRED = "consent_required"
    RATE_LIMITED = "rate_limited"
    """Ours: too many failed sign-ins from one address."""
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    """What the answer rests on cannot be read or recorded now, so there is none."""

    @property
    def status(self) -> int:
        """The HTTP status to answer with."""
        match self:
            case ErrorCode.INVALID_CLIENT | ErrorCode.INVALID_TOKEN:
                return 401
            case ErrorCode.RATE_LIMITED:
                return 429
            case ErrorCode.TEMPORARILY_UNAVAILABLE:
                return 503
            case _:
                return 400


class OAuthError(Refusal):
    """A request to the authorization server is refused with `error`.

    `public` becomes `error_description`: fixed ASCII text without quotes or backslashes (RFC 6749
    section 5.2), never a piece of the request. `client_id` is the registered client that the
    request was about, where there is one; `reason` is what its record has in place of `error`, and
    `told` what else it says.
    """

    code = "oauth_error"

    def __init__(
        self,
        error: ErrorCode,
        public: str,
        *,
        detail: str = "",
        client_id: str = "",
        reason: str = "",
    ) -> None:
        super().__init__(public, detail=detail)
        self.error = error
        self.reason = reason or error.value
        self.client_id = client_id
        self.told: Mapping[str, Any] = {}
