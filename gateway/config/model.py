"""The keys of `douane.yaml`, their types and their safe defaults."""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)

from gateway.config.alerts import Alerts
from gateway.config.approvals import Approvals
from gateway.config.audit import Audit, AuditOfTool
from gateway.config.auth import Auth
from gateway.config.code import Code
from gateway.config.console import Console
from gateway.config.credential import Credential
from gateway.config.discovery import Discovery
from gateway.config.dlp import DlpSection
from gateway.config.guidance import GuidanceSection
from gateway.config.local import LocalServer
from gateway.config.planes import Planes
from gateway.config.policy import Policy
from gateway.config.quotas import Price, QuotaSections
from gateway.config.runs import RunsSection
from gateway.config.section import Section, Word, Words, written
from gateway.config.storage import Storage
from gateway.config.tasks import TasksSection
from gateway.config.values import (
    Address,
    Dpop,
    Duration,
    Endpoint,
    Extension,
    Host,
    ListenAddress,
    LocalPath,
    Network,
    Origin,
    PublicOrigin,
)
from gateway.domain.descriptions import Guidance
from gateway.domain.labels import (
    Confidentiality,
    Effect,
    Integrity,
    Label,
    ServerRule,
    Tenant,
    ToolRule,
)
from gateway.domain.paths import parse_path

T = TypeVar("T")

_WIDEST_NETWORK = {4: 8, 6: 7}
"""The shortest prefixes of what is private: `10.0.0.0/8` and `fc00::/7`."""
_SERVER_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


class TenantSection(Section):
    self_: Words = Field(default=(), alias="self")
    domains: Words = ()
    members: Words = ()
    channels: Words = ()

    @property
    def value(self) -> Tenant:
        """The domain's form."""
        return Tenant(
            self_=frozenset(self.self_),
            domains=frozenset(self.domains),
            members=frozenset(self.members),
            channels=frozenset(self.channels),
        )


class Role(Section):
    groups: Words
    """Whoever is in one of these has the role."""


class Roles(Section):
    user: Role = written({"groups": ("users",)})
    approver: Role = written({"groups": ("security",)})
    admin: Role = written({"groups": ("admins",)})
    auditor: Role = written({"groups": ("auditors",)})

    def of(self, groups: frozenset[str]) -> frozenset[str]:
        """Return the names of the roles that a member of `groups` has."""
        return frozenset(
            name
            for name in type(self).model_fields
            if not groups.isdisjoint(getattr(self, name).groups)
        )


class Pins(Section):
    recheck: Duration = written("15m")
    fresh: Duration = written("60s")
    """How old a server's list may be when a call relies on it; a shorter `ttlMs` of its own counts."""
    expire: Duration | None = None
    """For how long an approval holds; `None`: until a person ends it."""
    exclude_meta: Words = ()
    """Members of `_meta` that upstreams change freely, left out of the digest."""
    results: Literal["label", "refuse"] = "label"
    """What becomes of a result that is not what its tool's approved definition promises: `label`
    calls it untrusted, `refuse` withholds it."""


class Limits(Section):
    request_bytes: int = Field(default=4 << 20, ge=1024, le=1 << 30)
    json_depth: int = Field(default=64, ge=4, le=512)
    calls_per_minute: int = Field(default=600, ge=1)
    result_bytes: int = Field(default=4 << 20, ge=1024, le=1 << 30)
    upstream_connect: Duration = written("5s")
    upstream_idle: Duration = written("60s")
    upstream_hard: Duration = written("15m")
    upstream_failures: int = Field(default=5, ge=1, le=1000)
    """After so many failures one after another a server is left alone for `upstream_rest`."""
    upstream_rest: Duration = written("1s")
    """How long at first; it doubles with each further failure, up to a minute."""
    upstream_ping: Duration | None = None
    """How often a session that is open at `/mcp` asks its server whether it is there; `None`: never."""
    session_idle: Duration = written("15m")
    """After how long without use a session with a server ends, at `/mcp`."""
    processes: int = Field(default=64, ge=1)
    """Of one local server at once."""
    process_memory: int = Field(default=1 << 30, ge=64 << 20)
    """Bytes of data of each."""
    process_idle: Duration = written("15m")
    """After how long without use one is ended."""
    quotas: QuotaSections = ()
    """How much may be used in which time, and by whom."""


class LabelSection(Section):
    integrity: Literal["trusted", "untrusted"] = "untrusted"
    confidentiality: Literal["public", "internal", "private", "secret"] = "private"

    @property
    def value(self) -> Label:
        """The domain's form."""
        return Label(
            integrity=Integrity[self.integrity.upper()],
            confidentiality=Confidentiality[self.confidentiality.upper()],
        )


def _result_field(text: str) -> str:
    try:
        parse_path(text)
    except ValueError as error:
        raise ValueError(f"{error}; write a path such as `$.items[*].sender`") from None
    return text


ResultField = Annotated[str, AfterValidator(_result_field)]


class Tool(Section):
    effect: Effect | None = None
    destination: Words = ()
    payload: Words = ()
    result: LabelSection | None = None
    typed: tuple[ResultField, ...] = ()
    guidance: GuidanceSection | None = None
    price: Price | None = None
    """What a call costs, for quotas that count that; `None`: what its approved definition says."""
    audit: AuditOfTool = written({})

    @property
    def rule(self) -> ToolRule:
        """The domain's form."""
        return ToolRule(
            effect=self.effect,
            destination=self.destination,
            payload=self.payload,
            result=self.result.value if self.result else None,
            typed=self.typed,
        )


class Server(LocalServer):
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["url"]}, {"required": ["command"]}]}
    )

    url: Endpoint | None = None
    """Where it is, if somebody else starts it."""
    credential: Credential = written({})
    defaults: LabelSection = written({})
    extensions: tuple[Extension, ...] = ()
    """The protocol extensions that clients and this server may declare to each other."""
    always_on: bool = False
    """Whether it is shown at `/mcp` whatever a client chooses."""
    portable_schemas: tuple[Host, ...] = ()
    """Hosts that are to be able to take its tools' schemas: what they refuse is not shown."""
    dpop: Dpop | None = None
    """Whether tokens for its endpoint are bound to a key; by default as `auth.dpop` says."""
    audit: AuditOfTool = written({})
    tools: dict[Word, Tool] = written({})

    @field_validator("url")
    @classmethod
    def _there_or_started(cls, url: str | None, info: ValidationInfo) -> str | None:
        if (url is None) is not bool(info.data.get("command", url is None)):
            raise ValueError("give either `url` or `command`")
        return url

    @field_validator("credential")
    @classmethod
    def _shown_over_http(cls, credential: Credential, info: ValidationInfo) -> Credential:
        if credential.kind != "none" and info.data.get("command"):
            raise ValueError("a `command` is shown none; hand it secrets in `environment`")
        return credential

    @property
    def labelled(self) -> frozenset[str]:
        """The names of tools of which more is said than what models are told of them."""
        return frozenset(
            name
            for name, tool in self.tools.items()
            if tool.rule != ToolRule()
            or (tool.guidance is None and tool.audit.level is None and tool.price is None)
        )

    @property
    def guidance(self) -> dict[str, Guidance]:
        """What models are told of its tools, in the domain's form."""
        return {
            name: tool.guidance.value
            for name, tool in self.tools.items()
            if tool.guidance is not None
        }

    @property
    def rule(self) -> ServerRule:
        """What an administrator says of this server, in the domain's form."""
        return ServerRule(
            default=self.defaults.value,
            tools={name: tool.rule for name, tool in self.tools.items()},
        )


class Egress(Section):
    """Where the gateway goes on somebody else's word: metadata, keys, token endpoints."""

    allow: tuple[Network, ...] = ()
    """Addresses that are not public and may be reached all the same."""
    ca: LocalPath | None = None
    """PEM file of a further authority for https."""

    @field_validator("allow")
    @classmethod
    def _some(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        for network in map(ipaddress.ip_network, networks):
            if network.prefixlen < _WIDEST_NETWORK[network.version]:
                raise ValueError(f"`{network}` is nearly everything; name the networks you need")
        return networks


class Tls(Section):
    """PEM files; without this section a proxy in front of the gateway speaks TLS."""

    certificate: LocalPath
    key: LocalPath


def _server_id(text: str) -> str:
    if not _SERVER_ID.fullmatch(text):
        raise ValueError(
            "a server's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"
        )
    if text == "callback":
        raise ValueError("`callback` is a page of ours under `/connect/`; choose another name")
    return text


class Config(Section):
    """All of `douane.yaml`. Paths are absolute, or relative to the working directory."""

    version: Literal[1]
    public_url: PublicOrigin
    """Issuer and resource URIs derive from it, never from a request."""
    listen: ListenAddress = written("127.0.0.1:8080")
    admin_listen: ListenAddress = written("127.0.0.1:8081")
    data_dir: LocalPath = written("./var")
    auth: Auth = written({})
    policy: Policy = written({})
    tenant: TenantSection = written({})
    roles: Roles = written({})
    audit: Audit = written({})
    pins: Pins = written({})
    approvals: Approvals = written({})
    console: Console = written({})
    alerts: Alerts = written({})
    runs: RunsSection = written({})
    tasks: TasksSection = written({})
    discovery: Discovery = written({})
    code: Code = written({})
    limits: Limits = written({})
    dlp: DlpSection = written({})
    egress: Egress = written({})
    tls: Tls | None = None
    trusted_proxies: tuple[Network, ...] = ()
    """Peers whose `X-Forwarded-For` is believed."""
    allowed_origins: tuple[Origin, ...] = ()
    """Origins of browser pages that may call; all others are refused."""
    servers: dict[Annotated[str, AfterValidator(_server_id)], Server] = written({})
    planes: Planes = written({})
    storage: Storage = written({})
    _file: Path = PrivateAttr(default=Path("douane.yaml"))
    _registered: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> Path:
        """The file that all of this was read from."""
        return self._file

    @property
    def registered(self) -> frozenset[str]:
        """The servers that no operator wrote down: somebody registered them at run time."""
        return frozenset(self._registered)

    @property
    def registered_as(self) -> Mapping[str, Any]:
        """What was said of each of them."""
        return self._registered

    def read_from(self, file: Path, registered: Mapping[str, Any] | None = None) -> Self:
        """Return this, and know from now on which `file` it is, and who is not written there."""
        self._file = file
        self._registered = dict(registered or {})
        return self

    @property
    def desk_url(self) -> str:
        """The origin of the desk."""
        if self.console.listen is None:
            return self.public_url
        return (
            self.console.url or f"{'http' if self.tls is None else 'https'}://{self.console.listen}"
        )

    @field_validator("admin_listen")
    @classmethod
    def _a_listener_of_its_own(cls, address: Address, info: ValidationInfo) -> Address:
        if address == info.data.get("listen"):
            raise ValueError("must not be the address of `listen`; choose another port")
        return address

    @field_validator("console")
    @classmethod
    def _another_listener(cls, console: Console, info: ValidationInfo) -> Console:
        if console.listen is None:
            return console
        if console.listen in {info.data.get("listen"), info.data.get("admin_listen")}:
            raise ValueError("`listen` must be an address of its own; choose another port")
        if console.url is None and not console.listen.is_loopback:
            raise ValueError("say in `url` which origin browsers know `listen` by")
        if console.url is not None and console.url == info.data.get("public_url"):
            raise ValueError(
                "`url` must not be `public_url`: cookies and forms are told apart by it"
            )
        auth = info.data.get("auth")
        if auth is not None and auth.mode == "external":
            raise ValueError("`listen`: nobody signs in here with `auth.mode: external`")
        return console

    @field_validator("auth")
    @classmethod
    def _nobody_elses_word_for_ours(cls, auth: Auth, info: ValidationInfo) -> Auth:
        # People are told apart by issuer and subject, and ours have `public_url` for an issuer.
        if info.data.get("public_url") in auth.issuers:
            raise ValueError("an `issuer` in it is `public_url`; name the other server instead")
        return auth

    @field_validator("servers")
    @classmethod
    def _with_quotas_of_their_own(
        cls, servers: dict[str, Server], info: ValidationInfo
    ) -> dict[str, Server]:
        limits = info.data.get("limits")
        for quota in limits.quotas if limits is not None else ():
            for name in quota.servers:
                if name not in servers:
                    raise ValueError(
                        f"`limits.quotas`: `{quota.name}` is about `{name}`, which is no server "
                        "here; correct its name, or add the server"
                    )
        return servers

    @field_validator("planes")
    @classmethod
    def _about_servers_that_there_are(cls, planes: Planes, info: ValidationInfo) -> Planes:
        named = {plane: section.named for _, plane, section in planes.every}
        hosts = planes.experimental_interceptors.items()
        named |= {name: frozenset(section.servers.values()) for name, section in hosts}
        for plane, servers in named.items():
            for name in sorted(servers.difference(info.data.get("servers", servers))):
                raise ValueError(
                    f"`{plane}` names `{name}`, which is no server here; correct its name, or add it"
                )
        taken = (info.data.get("listen"), info.data.get("admin_listen"))
        if planes.grpc is not None and planes.grpc.listen.at in taken:
            raise ValueError("`grpc.listen` must be an address of its own; choose another port")
        return planes

    @field_validator("storage")
    @classmethod
    def _shared_by_all(cls, storage: Storage, info: ValidationInfo) -> Storage:
        if storage.kind != "postgres":
            return storage
        auth, audit = info.data.get("auth"), info.data.get("audit")
        if auth is not None and auth.key_encryption_key is None:
            raise ValueError(
                "`kind: postgres` needs `auth.key_encryption_key`: a key in `data_dir` would be "
                "another one at each gateway"
            )
        if audit is not None and audit.on_failure == "spool":
            raise ValueError(
                "`kind: postgres`: leave out `audit.on_failure: spool`, for nobody can say beside the "
                "database whether what a call rests on still holds"
            )
        if audit is not None and audit.durability != "power":
            raise ValueError("`kind: postgres`: write `storage.durability` for `audit.durability`")
        planes = info.data.get("planes")
        if planes is not None and (any(planes.every) or planes.experimental_interceptors):
            raise ValueError(
                "`kind: postgres`: leave out `planes`: what one owes is known to the gateway alone that "
                "it has asked; have planes ask a gateway of its own with `kind: sqlite`"
            )
        for name, server in info.data.get("servers", {}).items():
            if server.command:
                raise ValueError(
                    f"`kind: postgres`: every gateway would start a `{name}` of its own, and each "
                    "would know nothing of the others' calls; start it once, and give its `url`"
                )
        return storage

    @field_validator("servers")
    @classmethod
    def _for_people_who_sign_in_here(
        cls, servers: dict[str, Server], info: ValidationInfo
    ) -> dict[str, Server]:
        auth = info.data.get("auth")
        if auth is not None and auth.mode == "external":
            # Whom another server vouches for has no account here to keep a connection in.
            for name, server in servers.items():
                if server.dpop not in {None, "off"}:
                    raise ValueError(
                        f"`{name}` wants tokens bound to a key, which `auth.mode: external` does not "
                        "issue; remove `dpop`, or choose another mode"
                    )
                if server.credential.kind in {"oauth", "exchange"}:
                    raise ValueError(
                        f"`{name}` wants a credential of each person, who `auth.mode: external` "
                        "does not let sign in here; use `header`, or another mode"
                    )
        return servers
