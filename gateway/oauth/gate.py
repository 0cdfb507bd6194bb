"""The bearer gate: who holds the access token that a request carries (RFC 6750, RFC 8707)."""

from collections import OrderedDict
from hashlib import sha256

from gateway.domain.identity import Client, Credential, Principal
from gateway.errors import Unauthenticated
from gateway.oauth.keys import KeyRing
from gateway.oauth.resources import Resources
from gateway.oauth.tokens import LEEWAY_S, AccessToken, verify
from gateway.ports import ClientStore, Clock


class TokenGate:
    """`ports.Authenticator` for tokens that this gateway issued.

    What is remembered is that a signature was good, never that a token is still valid: its expiry
    and its client are looked at on every call. A gate belongs to one key ring; a rotation makes a
    new gate.
    """

    def __init__(
        self,
        *,
        resources: Resources,
        keys: KeyRing,
        clients: ClientStore,
        clock: Clock,
        most_tokens: int = 10_000,
    ) -> None:
        self._issuer = resources.public_url
        self._uris = dict(resources.uris)
        self._keys = keys
        self._find_client = clients.find
        self._clock = clock
        self._most_tokens = most_tokens
        # By hash, so that a memory dump yields no usable tokens; by endpoint as well, so that a
        # token that is good for one is verified anew at another.
        self._seen: OrderedDict[tuple[str, bytes], tuple[int, AccessToken, Client, Principal]] = (
            OrderedDict()
        )

    def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`, with what the client's registration gives it now.

        Raises:
            Unauthenticated: No token, one that is not valid now and for `endpoint` alone, or one of
                a client that was removed or may no longer use `endpoint`.

        """
        if credential is None:
            raise Unauthenticated("an access token is required")
        now = self._clock()
        key = endpoint, sha256(credential.text.encode("utf-8", "surrogatepass")).digest()
        seen = self._seen.get(key)
        if seen is None or now + LEEWAY_S < seen[1].issued_at:
            # Not remembered; or the clock has gone back, and its end would be too far away.
            return self._admit(key, self._verified(credential.text, endpoint, now))
        expires_at, token, client, principal = seen
        if now >= expires_at:
            del self._seen[key]
            raise Unauthenticated("the access token has expired", detail=token.token_id)
        if self._find_client(token.client_id) is not client:
            return self._admit(key, token)
        self._seen.move_to_end(key)
        return principal

    def _verified(self, text: str, endpoint: str, now: float) -> AccessToken:
        audience = self._uris.get(endpoint)
        if audience is None:
            raise Unauthenticated("no token is for this endpoint", detail="unknown endpoint")
        return verify(text, keys=self._keys, issuer=self._issuer, audience=audience, now=now)

    def _admit(self, key: tuple[str, bytes], token: AccessToken) -> Principal:
        """Make the principal of a verified token, and remember it."""
        client = self._find_client(token.client_id)
        if client is None:
            self._seen.pop(key, None)
            raise Unauthenticated("the client was removed", detail=token.client_id)
        if key[0] not in client.resources:
            self._seen.pop(key, None)
            raise Unauthenticated("the client may not use this endpoint", detail=token.client_id)
        principal = _principal(token, client)
        self._seen[key] = token.expires_at, token, client, principal
        self._seen.move_to_end(key)
        if len(self._seen) > self._most_tokens:
            self._seen.popitem(last=False)
        return principal


def _principal(token: AccessToken, client: Client) -> Principal:
    """Join what the token says with what its client may have now: never more than either."""
    return Principal(
        issuer=token.issuer,
        subject=token.subject,
        client_id=client.id,
        client_name=client.name,
        # A client that acts for itself has the groups of its registration, as they are now.
        groups=client.groups,
        scopes=token.scopes & client.scopes,
        token_id=token.token_id,
        expires_at=float(token.expires_at),
        trusted_host=client.trusted_host,
    )
