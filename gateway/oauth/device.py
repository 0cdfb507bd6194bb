"""The device authorization endpoint: a code for a device, and one for its person (RFC 8628)."""

from gateway.domain.grants import DeviceRequest
from gateway.domain.throttle import Throttles
from gateway.oauth.builtin import DEVICE_CODE
from gateway.oauth.client_authentication import EVERY_METHOD
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.intake import Intake
from gateway.oauth.protocol import ProtocolRequest, ProtocolServer, token_hash
from gateway.oauth.records import Granted, TokenAnswer, TokenRequest

METHOD = "oauth/device_authorization"
VERIFICATION_PATH = "/device"

LIFETIME_S = 600
INTERVAL_S = 5

BEGUN_A_MINUTE = 30
"""From one address: each takes up room for its whole life, and makes a guess at a code likelier."""

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so no words; nothing that reads as another (RFC 8628 section 6.1)."""

USER_CODE_LENGTH = 8

_UNBIASED = 256 - 256 % len(ALPHABET)
"""An octet from here on would favour the first letters."""


class DeviceEndpoint:
    """Begins a sign-in on a device that has no browser of its own."""

    def __init__(
        self, *, server: ProtocolServer, intake: Intake, throttles: Throttles | None = None
    ) -> None:
        self._server = server
        self._intake = intake
        found = throttles or Throttles()
        self._begun = found.of("device codes", allowed=BEGUN_A_MINUTE, window_s=60.0)

    async def begin(self, request: TokenRequest) -> TokenAnswer:
        """Return both codes once that is on record, else a 503 (RFC 8628 section 3.2)."""
        return await self._intake.answer(request, METHOD, self._judge, bound=self._begun)

    def _judge(self, request: ProtocolRequest) -> Granted:
        server, resources = self._server, self._server.resources
        client = server.authenticate_client(request, EVERY_METHOD).of
        if DEVICE_CODE not in client.grants:
            raise OAuthError(ErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant")
        endpoint = resources.requested(request.resources, client)
        scopes = resources.granted(request.form.get("scope"), client, endpoint)
        device_code = server.new_secret()
        device = DeviceRequest(
            device_hash=token_hash(device_code),
            user_code=self._user_code(),
            client_id=client.id,
            endpoint=endpoint,
            scopes=scopes,
            expires_at=request.attempt.time + LIFETIME_S,
            interval_s=INTERVAL_S,
        )
        try:
            server.stores.grants.add_device(device)
        except ValueError as error:
            # One in a few million: another device waits under the same user code.
            raise OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "try again later") from error
        told = {"client": client.id, "endpoint": endpoint}
        message = "scope " + " ".join(sorted(scopes))
        return Granted(
            body=self._body(device_code, device), told=told, code="device_waits", message=message
        )

    def _body(self, device_code: str, device: DeviceRequest) -> dict[str, str | int]:
        shown = f"{device.user_code[:4]}-{device.user_code[4:]}"
        uri = self._server.resources.public_url + VERIFICATION_PATH
        return {
            "device_code": device_code,
            "user_code": shown,
            "verification_uri": uri,
            "verification_uri_complete": f"{uri}?user_code={shown}",
            "expires_in": LIFETIME_S,
            "interval": INTERVAL_S,
        }

    def _user_code(self) -> str:
        letters = ""
        while len(letters) < USER_CODE_LENGTH:
            drawn = self._server.random(2 * USER_CODE_LENGTH)
            letters += "".join(
                ALPHABET[octet % len(ALPHABET)] for octet in drawn if octet < _UNBIASED
            )
        return letters[:USER_CODE_LENGTH]
