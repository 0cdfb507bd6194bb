"""People, clients and what they grant, with plain names and a moment for all of it."""

from dataclasses import replace

from gateway.domain.grants import (
    AuthorizationCode,
    AuthorizationRequest,
    BrowserSession,
    Consent,
    DeviceRequest,
    Grant,
    RefreshToken,
    Transaction,
)
from gateway.domain.identity import User
from gateway.domain.secrets import StoredConnection

NOW = 1_800_000_000.0
URI = "https://app.test/callback"
MAIL = "/mcp/mail"


class Hand:
    """A clock that moves only when told to."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def user(name: str = "emma", /, **changes: object) -> User:
    made = User(
        id=f"u_{name}",
        issuer="https://douane.test",
        subject=name,
        name=name.title(),
        groups=frozenset({"staff", "mail"}),
        created_at=NOW,
        created_by="root",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def grant(name: str = "g", /, **changes: object) -> Grant:
    made = Grant(
        id=name,
        user_id="u_emma",
        client_id="c_1",
        endpoint=MAIL,
        scopes=frozenset({"tools:list", "tools:call"}),
        created_at=NOW,
        expires_at=NOW + 1000,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def code(name: str = "code", /, of: str = "g", **changes: object) -> AuthorizationCode:
    made = AuthorizationCode(
        code_hash=name,
        grant_id=of,
        client_id="c_1",
        redirect_uri=URI,
        code_challenge="challenge",
        expires_at=NOW + 60,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def token(name: str = "t1", /, of: str = "g", **changes: object) -> RefreshToken:
    made = RefreshToken(
        token_hash=name,
        grant_id=of,
        client_id="c_1",
        parent_hash=None,
        issued_at=NOW,
        expires_at=NOW + 500,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def device(name: str = "d", /, **changes: object) -> DeviceRequest:
    made = DeviceRequest(
        device_hash=name,
        user_code=f"CODE{name}",
        client_id="c_1",
        endpoint=MAIL,
        scopes=frozenset({"tools:list"}),
        expires_at=NOW + 600,
        interval_s=5,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def session(name: str = "s", /, of: str = "u_emma", **changes: object) -> BrowserSession:
    made = BrowserSession(
        id_hash=name,
        user_id=of,
        created_at=NOW,
        expires_at=NOW + 100,
        source_ip="192.0.2.1",
        user_agent="Browser/1",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


REQUEST = AuthorizationRequest(
    client_id="c_1",
    redirect_uri=URI,
    endpoint=MAIL,
    scopes=frozenset({"tools:list", "tools:call"}),
    state="état",
    code_challenge="challenge",
)


def transaction(name: str = "x", /, **changes: object) -> Transaction:
    made = Transaction(
        id=name,
        browser_hash="browser",
        purpose="authorize",
        request=REQUEST,
        created_at=NOW,
        expires_at=NOW + 600,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def consent(client: str = "c_1", /, of: str = "u_emma", **changes: object) -> Consent:
    made = Consent(
        user_id=of,
        client_id=client,
        endpoint=MAIL,
        redirect_uri=URI,
        scopes=frozenset({"tools:list"}),
        given_at=NOW,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def connection(server: str = "mail", /, of: str = "u_emma", **changes: object) -> StoredConnection:
    made = StoredConnection(
        user_id=of,
        server=server,
        issuer="https://as.test",
        sealed="sealed 1",
        scopes=("read", "archive"),
        expires_at=NOW + 60,
        version=1,
        connected_at=NOW,
    )
    return replace(made, **changes)  # type: ignore[arg-type]
