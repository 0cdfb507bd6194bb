"""The client that everybody has, found beside those that are registered."""

from collections.abc import Callable

from gateway.domain.identity import AuthMethod, Client
from gateway.oauth.resources import ADMIN_API
from gateway.ports.identity import ClientStore

AUTHORIZATION_CODE = "authorization_code"
REFRESH_TOKEN = "refresh_token"  # noqa: S105 - a grant
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
PUBLIC = frozenset({AuthMethod.NONE})

COMMAND_LINE = Client(
    id="douane-cli",
    name="Douane command line",
    auth_methods=PUBLIC,
    redirect_uris=("http://127.0.0.1/callback",),
    grants=(AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE),
    resources=frozenset({ADMIN_API}),
    scopes=frozenset({"admin"}),
    created_at=0.0,
    created_by="douane",
)
"""`douane login`: part of the gateway, so found everywhere and stored nowhere."""


def with_builtin(store: ClientStore, desk: Client | None = None) -> Callable[[str], Client | None]:
    """Return a look-up of clients in `store`, and of those that are built in. From memory."""
    builtin, find = {one.id: one for one in (COMMAND_LINE, desk) if one is not None}, store.find

    def found(client_id: str) -> Client | None:
        return builtin.get(client_id) or find(client_id)

    return found
