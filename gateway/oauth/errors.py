"""How the authorization server says no (RFC 6749 section 5.2, RFC 8707 section 2)."""

from enum import StrEnum

from gateway.errors import Refusal


class ErrorCode(StrEnum):
    """The `error` member of an answer; RFC 6749's own unless noted."""

    INVALID_REQUEST = "invalid_request"
    INVALID_CLIENT = "invalid_client"
    UNAUTHORIZED_CLIENT = "unauthorized_client"
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    INVALID_SCOPE = "invalid_scope"
    INVALID_TARGET = "invalid_target"
    """RFC 8707: the resource is missing, unknown or not the client's."""
    RATE_LIMITED = "rate_limited"
    """Ours: too many failed sign-ins from one address."""
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    """The answer could not be recorded, so it is not given."""

    @property
    def status(self) -> int:
        """The HTTP status to answer with."""
        match self:
            case ErrorCode.INVALID_CLIENT:
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
    request was about, where there is one.
    """

    code = "oauth_error"

    def __init__(
        self, error: ErrorCode, public: str, *, detail: str = "", client_id: str = ""
    ) -> None:
        super().__init__(public, detail=detail)
        self.error = error
        self.client_id = client_id
