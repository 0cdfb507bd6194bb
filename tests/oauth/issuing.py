"""The token side of the authorization server over real stores and a real vault."""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from gateway.domain.audit import AuditRecord
from gateway.domain.grants import AuthorizationCode, DeviceStatus, Grant
from gateway.domain.identity import AuthMethod, BearerToken, Client, ClientKind, Principal, User
from gateway.domain.tools import UpstreamId
from gateway.errors import PolicyUnavailable
from gateway.oauth.builtin import AUTHORIZATION_CODE, DEVICE_CODE, REFRESH_TOKEN, with_builtin
from gateway.oauth.device import DeviceEndpoint
from gateway.oauth.gate import TokenGate
from gateway.oauth.intake import Intake
from gateway.oauth.possession import Possession
from gateway.oauth.programs import Programs
from gateway.oauth.protocol import Lifetimes, ProtocolServer, Reuse, Stores, token_hash
from gateway.oauth.records import TokenAnswer, TokenRequest
from gateway.oauth.revocation import RevocationEndpoint
from gateway.oauth.token_endpoint import IssuerKeys, TokenEndpoint, TrustedIssuer
from gateway.oauth.tokens import AccessToken, verify
from gateway.storage.identity.store import IdentityStores
from gateway.vault import KeyEncryptionKey, Vault
from tests.oauth.world import KEYS, MAIL, MAIL_URI, NOW, PUBLIC_URL, RESOURCES, Hand
from tests.storage.memory import MemoryAuditLog
from tests.storage.memory_calls import MemoryScriptStore

SOURCE = "192.0.2.7"
CALLBACK = "http://127.0.0.1:33418/callback"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
SCOPES = frozenset({"tools:list", "tools:call"})
KEK = KeyEncryptionKey(named="test", octets=os.urandom(32))
ALICE = User(
    id="a11ce",
    issuer=PUBLIC_URL,
    subject="alice",
    name="Alice",
    groups=frozenset({"security"}),
    created_at=NOW,
    created_by="setup",
)
APP = Client(
    id="app",
    name="App",
    kind=ClientKind.DYNAMIC,
    auth_methods=frozenset({AuthMethod.NONE}),
    redirect_uris=(CALLBACK,),
    grants=(AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE),
    created_at=NOW,
    created_by=SOURCE,
)
OTHER = replace(APP, id="other", name="Other")

Answer = tuple[int, Mapping[str, Any]]


class Clients:
    """Finds stored clients and the built-in one; fetches nothing."""

    def __init__(self, stores: IdentityStores) -> None:
        self._find = with_builtin(stores.clients)
        self.asked: list[tuple[str, str]] = []

    async def resolve(self, client_id: str, source_ip: str) -> Client | None:
        self.asked.append((client_id, source_ip))
        return self._find(client_id)


class Tools:
    """Which tools everybody may know of."""

    def __init__(self) -> None:
        self.known = {
            "mail__send": (UpstreamId("mail"), "send"),
            "mail__search": (UpstreamId("mail"), "search"),
        }
        self.asked: list[tuple[str, str]] = []
        self.down = False

    async def of(
        self, principal: Principal, source_ip: str
    ) -> Mapping[str, tuple[UpstreamId, str]]:
        self.asked.append((principal.key, source_ip))
        if self.down:
            raise PolicyUnavailable("try again later", detail="no answer")
        return self.known


class Issuer:
    """An authorization server in a folder: its clients, people, log and clock."""

    def __init__(
        self,
        folder: Path,
        *clients: Client,
        clock: Hand | None = None,
        trusted: Sequence[TrustedIssuer] = (),
        issuer_keys: IssuerKeys | None = None,
        reuse: Reuse | None = None,
        possession: Possession | None = None,
        **lifetimes: Any,
    ) -> None:
        self.clock = clock or Hand()
        self.log = MemoryAuditLog()
        self.stores = IdentityStores.open(folder, clock=self.clock)
        for client in clients or (APP, OTHER):
            if self.stores.clients.find(client.id) is None:
                self.stores.clients.add(client)
        if self.stores.users.find(ALICE.id) is None:
            self.stores.users.add(ALICE)
        self.vault = Vault.unlock(self.stores.data_keys, [KEK], random=os.urandom, clock=self.clock)
        self.directory = Clients(self.stores)
        self.scripts = MemoryScriptStore()
        self.tools = Tools()
        self.gate = TokenGate(
            resources=RESOURCES,
            keys=KEYS,
            clients=self.stores.clients,
            users=self.stores.users,
            is_revoked=self.stores.grants.is_revoked,
            scripts=self.scripts,
            clock=self.clock,
            epoch=self.stores.epoch,
            people=lambda: self.stores.people,
            possession=possession,
        )
        self.server = ProtocolServer(
            resources=RESOURCES,
            lifetimes=Lifetimes(**{"access_s": 900, **lifetimes}),
            stores=Stores(users=self.stores.users, grants=self.stores.grants, sealer=self.vault),
            keys=KEYS,
            new_id=lambda: os.urandom(8).hex(),
            random=os.urandom,
            programs=Programs(authenticator=self.gate, tools=self.tools, scripts=self.scripts),
            reuse=reuse,
            possession=possession,
        )
        intake = Intake(
            directory=self.directory,
            audit=self.log,
            clock=self.clock,
            new_id=map("id-{}".format, count(1)).__next__,
        )
        self.endpoint = TokenEndpoint(
            server=self.server, intake=intake, trusted=trusted, issuer_keys=issuer_keys
        )
        self.revocation = RevocationEndpoint(server=self.server, intake=intake)
        self.devices = DeviceEndpoint(server=self.server, intake=intake)

    async def ask(self, **parameters: str) -> TokenAnswer:
        """Ask the token endpoint, as `APP` unless another client is named."""
        return await self.endpoint.answer(form(parameters))

    async def answer(self, **parameters: str) -> Answer:
        """Ask the token endpoint, and return status and body."""
        answer = await self.ask(**parameters)
        return answer.status, answer.body

    async def redeem(self, code: str, /, **changes: str) -> Answer:
        """Trade a code; a parameter that is changed to nothing is left out."""
        parameters = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            **changes,
        }
        return await self.answer(**parameters)

    async def refresh(self, token: str, /, **changes: str) -> Answer:
        return await self.answer(grant_type="refresh_token", refresh_token=token, **changes)

    async def signed_in(self, **changes: Any) -> Mapping[str, Any]:
        """Return the tokens of a new family."""
        status, body = await self.redeem(self.code(**changes))
        assert status == 200
        return body

    async def revoke(self, token: str, /, **changes: str) -> TokenAnswer:
        return await self.revocation.answer(form({"token": token, **changes}))

    async def begin_device(self, **parameters: str) -> TokenAnswer:
        return await self.devices.begin(form({"resource": MAIL_URI, **parameters}))

    async def poll(self, device_code: str, /, **changes: str) -> Answer:
        return await self.answer(grant_type=DEVICE_CODE, device_code=device_code, **changes)

    def grant(self, **changes: Any) -> Grant:
        """Return a grant that Alice gave to `APP`, changed as told; it is not stored."""
        fields: dict[str, Any] = {
            "id": os.urandom(8).hex(),
            "user_id": ALICE.id,
            "client_id": APP.id,
            "endpoint": MAIL,
            "scopes": SCOPES,
            "created_at": self.clock.now,
            "expires_at": self.clock.now + 90 * 86400,
        }
        return Grant(**{**fields, **changes})

    def code(self, **changes: Any) -> str:
        """Return a new code for a grant that is changed as told."""
        text, grant = os.urandom(16).hex(), self.grant(**changes)
        code = AuthorizationCode(
            code_hash=token_hash(text),
            grant_id=grant.id,
            client_id=grant.client_id,
            redirect_uri=CALLBACK,
            code_challenge=create_s256_code_challenge(VERIFIER),
            expires_at=self.clock.now + 60,
        )
        self.stores.grants.issue_code(grant, code)
        return text

    def approve(self, device_code: str, **changes: Any) -> Grant:
        """Say yes to a device, as Alice."""
        grant = self.grant(**changes)
        assert self.stores.grants.answer_device(
            token_hash(device_code), DeviceStatus.APPROVED, grant, now=self.clock.now
        )
        return grant

    def read(self, body: Mapping[str, Any], audience: str = MAIL_URI) -> AccessToken:
        """Return what the access token of an answer says."""
        return verify(
            body["access_token"],
            keys=KEYS,
            issuer=PUBLIC_URL,
            audience=audience,
            now=self.clock.now,
        )

    async def admit(self, body: Mapping[str, Any], endpoint: str = MAIL) -> Principal:
        """Return who the access token of an answer lets in."""
        return await self.gate.authenticate(BearerToken(text=body["access_token"]), endpoint)

    @property
    def record(self) -> AuditRecord:
        return self.log.records[-1]

    @property
    def reason(self) -> str:
        """What the last record says of why."""
        message: str = self.record.fields["reasons"][0]["message"]
        return message

    def families(self) -> int:
        """Return how many grants are neither revoked nor over."""
        return len(self.stores.grants.grants())


def form(parameters: Mapping[str, str]) -> TokenRequest:
    """Return a request of `APP` unless another client proves itself in it."""
    parameters = {"client_id": APP.id, **parameters}
    kept = {name: text for name, text in parameters.items() if text}
    return TokenRequest(body=urlencode(kept).encode(), source_ip=SOURCE)


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()
