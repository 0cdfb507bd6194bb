"""Proof Key for Code Exchange: S256, for every client (RFC 7636, OAuth 2.1 section 4.1.1)."""

import hmac
from typing import Any

from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

METHOD = "S256"


def _matches(verifier: str, challenge: str) -> bool:
    return hmac.compare_digest(create_s256_code_challenge(verifier), challenge)


class S256Only(CodeChallenge):
    """Authlib takes `plain` where a code names no method. Ours name none, and are all S256.

    Each has a challenge, which the authorization endpoint saw to; hence each needs a verifier.
    """

    DEFAULT_CODE_CHALLENGE_METHOD = METHOD
    SUPPORTED_CODE_CHALLENGE_METHOD = (METHOD,)
    CODE_CHALLENGE_METHODS = {METHOD: _matches}  # noqa: RUF012 - Authlib's, and never changed

    def get_authorization_code_challenge_method(self, authorization_code: Any) -> str:
        """Return S256: no code was ever given for another."""
        del authorization_code
        return METHOD
