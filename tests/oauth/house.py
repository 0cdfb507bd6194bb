"""The authorization server's front rooms over real stores, and a web of documents to fetch."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from gateway.domain.identity import AuthMethod, Client, ClientKind, User
from gateway.errors import GatewayError
from gateway.oauth.authorization import AuthorizationEndpoint
from gateway.oauth.builtin import with_builtin
from gateway.oauth.documents import ClientDirectory, DocumentRules
from gateway.oauth.looking_again import Look
from gateway.oauth.possession import Possession
from gateway.oauth.protocol import Lifetimes, ProtocolServer, Stores
from gateway.oauth.registration import RegistrationEndpoint, RegistrationRules
from gateway.storage.identity.store import IdentityStores
from tests.oauth.world import KEYS, MAIL, NOW, PUBLIC_URL, RESOURCES, Hand
from tests.storage.memory import MemoryAuditLog

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
CALLBACK = "https://app.example/cb"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
SOURCE = "192.0.2.7"
ALICE = User(
    id="a11ce",
    issuer=PUBLIC_URL,
    subject="alice",
    name="Alice",
    groups=frozenset(),
    created_at=NOW,
    created_by="setup",
)


@dataclass
class Page:
    """What a server answers."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})

    def json(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = orjson.loads(self.body)
        return found


class Web:
    """Implements `Fetcher` over pages by URL; what is missing there fails as it is told to."""

    def __init__(self) -> None:
        self.pages: dict[str, Page | GatewayError] = {}
        self.asked: list[str] = []
        self.named_by: list[str] = []
        """On whose word each was asked."""
        self.gate = asyncio.Event()
        self.gate.set()

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, who: str = ""
    ) -> Page:
        assert headers == {"accept": "application/json"}
        self.asked.append(url)
        self.named_by.append(who)
        await self.gate.wait()
        page = self.pages[url]
        if isinstance(page, GatewayError):
            raise page
        return page

    async def post(self, url: str, **_: Any) -> Page:
        raise AssertionError(url)


class House:
    def __init__(
        self,
        folder: Path,
        *,
        registration: RegistrationRules | None = None,
        documents: DocumentRules | None = None,
        possession: Possession | None = None,
    ) -> None:
        self.clock = Hand()
        self.log = MemoryAuditLog()
        self.web = Web()
        self.stores = IdentityStores.open(folder, clock=self.clock)
        self.stores.users.add(ALICE)
        self._numbers = itertools.count(1)
        self.directory = ClientDirectory(
            find=with_builtin(self.stores.clients),
            clients=self.stores.clients,
            fetcher=self.web,
            audit=self.log,
            clock=self.clock,
            new_id=self.new_id,
            rules=documents or DocumentRules(private_redirects=frozenset({CURSOR})),
            look=Look(self.stores.follow),
        )
        self.registration = RegistrationEndpoint(
            rules=registration or RegistrationRules(private_redirects=frozenset({CURSOR})),
            clients=self.stores.clients,
            audit=self.log,
            clock=self.clock,
            new_id=self.new_id,
            random=self.random,
        )
        self.authorization = AuthorizationEndpoint(
            server=ProtocolServer(
                resources=RESOURCES,
                lifetimes=Lifetimes(),
                stores=Stores(
                    users=self.stores.users,
                    grants=self.stores.grants,
                    sealer=cast("Any", None),
                ),
                keys=KEYS,
                new_id=self.new_id,
                random=self.random,
                possession=possession,
            ),
            directory=self.directory,
            audit=self.log,
            clock=self.clock,
        )

    def new_id(self) -> str:
        return f"id-{next(self._numbers)}"

    def random(self, octets: int) -> bytes:
        return next(self._numbers).to_bytes(octets, "big")

    def add(self, **changes: Any) -> Client:
        """Store a client that registered itself, changed as told."""
        fields: dict[str, Any] = {
            "id": "dcr_app",
            "name": "App",
            "kind": ClientKind.DYNAMIC,
            "auth_methods": frozenset({AuthMethod.NONE}),
            "redirect_uris": (CALLBACK,),
            "grants": ("authorization_code", "refresh_token"),
            "created_at": NOW,
            "created_by": SOURCE,
        }
        client = Client(**{**fields, **changes})
        self.stores.clients.add(client)
        return client

    @property
    def told(self) -> list[tuple[str, str, str | None, str]]:
        """Of each record: kind, verdict, code or first reason, and client."""
        return [
            (
                record.kind.value,
                record.fields["verdict"],
                record.fields.get("code"),
                record.fields.get("client", ""),
            )
            for record in self.log.records
        ]


def query(*more: tuple[str, str], without: str = "", **changes: str) -> bytes:
    """Return a good authorization request for `MAIL` as a query, changed as told."""
    parameters = {
        "response_type": "code",
        "client_id": "dcr_app",
        "redirect_uri": CALLBACK,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": PUBLIC_URL + MAIL,
        "scope": "tools:list tools:call",
        "state": "x y/z&1",
        **changes,
    }
    parameters.pop(without, None)
    return urlencode([*parameters.items(), *more]).encode()


def answer_in(location: str) -> dict[str, str]:
    """Return what a redirect says, each thing once."""
    pairs = parse_qsl(urlsplit(location).query, strict_parsing=True, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)
