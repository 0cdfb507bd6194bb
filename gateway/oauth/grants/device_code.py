"""The device code, where it becomes a token (RFC 8628 sections 3.4 and 3.5)."""

from authlib.oauth2.rfc8628 import DeviceCodeGrant

from gateway.domain.grants import DeviceRequest, DeviceStatus, Grant
from gateway.domain.identity import User
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.grants.issuing import Issuing, Response
from gateway.oauth.protocol import token_hash

SLOWER_S = 5
"""What `slow_down` adds to the interval, for good."""

_REFUSED = "the device code is not valid"


class DeviceGrant(Issuing, DeviceCodeGrant):
    """A device asks until a person has answered, and then once more."""

    REQUIRED: tuple[str, ...] = ("device_code",)

    def validate_token_request(self) -> None:
        """Find the device's request, and see that a person said yes to it."""
        client = self.authenticate_token_endpoint_client()
        if not client.check_grant_type(self.GRANT_TYPE):
            raise OAuthError(ErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant")
        found = self.server.stores.grants.device(token_hash(self.request.form["device_code"]))
        if found is None or found.client_id != self.asking.id:
            detail = "unknown code" if found is None else "another client's code"
            raise OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)
        self.request.credential = found
        self.validate_device_credential(found)

    def validate_device_credential(self, credential: DeviceRequest) -> None:
        """Return only if there is something to fetch.

        Raises:
            OAuthError: The answer that RFC 8628 has for where the request stands.

        """
        if credential.expires_at <= self.now:
            raise OAuthError(ErrorCode.EXPIRED_TOKEN, "the device code has expired")
        match credential.status:
            case DeviceStatus.DENIED:
                raise OAuthError(ErrorCode.ACCESS_DENIED, "the person said no")
            case DeviceStatus.PENDING:
                raise self._pending(credential)
            case DeviceStatus.APPROVED | DeviceStatus.REDEEMED:
                return

    def create_token_response(self) -> Response:
        """Make the tokens, then use the request up; of several that come at once, one does."""
        device: DeviceRequest = self.request.credential
        grant, user = self.living(device.grant_id)
        self.check_resource(grant)
        if device.status is DeviceStatus.REDEEMED:
            raise self._replayed(grant)
        return self._redeemed(device, grant, user)

    def _redeemed(self, device: DeviceRequest, grant: Grant, user: User) -> Response:
        text, first = self.first_refresh_token(grant)
        issued = self.for_person(grant, user, grant.scopes, text)
        if not self.server.stores.grants.redeem_device(device.device_hash, first, at=self.now):
            raise self._replayed(grant)
        return 200, issued, ()

    def _pending(self, device: DeviceRequest) -> OAuthError:
        """Note the poll, and return what to say: ask again, or ask less often."""
        early = self.now < device.polled_at + device.interval_s
        interval_s = device.interval_s + SLOWER_S * early
        self.server.stores.grants.poll_device(
            device.device_hash, at=self.now, interval_s=interval_s
        )
        if early:
            return OAuthError(ErrorCode.SLOW_DOWN, "wait longer before asking again")
        return OAuthError(ErrorCode.AUTHORIZATION_PENDING, "the person has not answered yet")

    def _replayed(self, grant: Grant) -> OAuthError:
        self.server.stores.grants.revoke_grant(grant.id, "device code used twice", at=self.now)
        detail = f"the code was used before: grant {grant.id} is revoked"
        return OAuthError(ErrorCode.INVALID_GRANT, _REFUSED, detail=detail)
