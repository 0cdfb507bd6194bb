"""Data planes of others that may ask for decisions: the section `planes` of `douane.yaml`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from gateway.config.section import Section, Word, Words, written
from gateway.config.values import (
    Duration,
    GrpcAddress,
    LocalPath,
    Secret,
    SecretRef,
    SecretReference,
)
from gateway.domain.planes import (
    REPLACE_RESULT,
    ForeignType,
    InterceptorHost,
    Plane,
    PlaneKind,
    Reports,
)
from gateway.domain.tools import UpstreamId

_FEWEST_CHARACTERS = 32
_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
_Scope = Literal["tools:list", "tools:call", "tools:write", "prompts", "resources"]


def key_of(secret: Secret) -> str:
    """Return what a plane proves itself with.

    Raises:
        ValueError: It is too short to be nobody's guess.

    """
    text = secret.reveal()
    if len(text) < _FEWEST_CHARACTERS or not text.isascii():
        raise ValueError(
            f"write {_FEWEST_CHARACTERS} random characters or more: `openssl rand -hex 32`"
        )
    return text


def long_enough(ref: SecretRef, info: ValidationInfo) -> SecretRef:
    """Return `ref` if what it names, where that can be had, is nobody's guess.

    Raises:
        ValueError: It is.

    """
    environ = (info.context or {}).get("environ")
    if environ is not None:
        key_of(ref.resolve(environ))
    return ref


class ForeignTypeSection(Section):
    server: Word
    actions: Annotated[dict[Word, Word], Field(min_length=1)]
    """An action's name -> the tool that it is."""


class AskingPlane(Section):
    """What every plane says of itself, in whose words ever it asks."""

    key: SecretReference
    """What it sends as its bearer token."""
    servers: Annotated[dict[Word, Word], Field(min_length=1)]
    """What it calls servers -> the name that they have here."""
    issuers: Words = ()
    """For whose people it may ask; `public_url` if nothing is given."""
    subjects: Literal["known", "vouched"] = "known"
    """`vouched`: also for people who are not known here."""
    groups: Word | None = None
    """The property of a subject, or the claim, that names its groups, if it vouches."""
    client: Word | None = None
    """The one client whose calls it carries; without it each question names one."""
    scopes: tuple[_Scope, ...] = ("tools:list", "tools:call", "prompts", "resources")

    @field_validator("key")
    @classmethod
    def _a_long_one(cls, ref: SecretRef, info: ValidationInfo) -> SecretRef:
        return long_enough(ref, info)

    @model_validator(mode="after")
    def _with_groups_to_vouch_for(self) -> Self:
        if self.groups is not None and self.subjects != "vouched":
            raise ValueError("`groups` goes with `subjects: vouched`; those known here have ours")
        return self

    @property
    def named(self) -> frozenset[str]:
        """The servers that it may ask about, as they are called here."""
        return frozenset(self.servers.values())

    def asking(self, name: str, environ: Mapping[str, str], public_url: str) -> Plane:
        """Return the domain's form of all this; `environ` is where its key may be.

        Raises:
            ValueError: Its key is missing or too short.

        """
        return Plane(
            name=name,
            key_digest=sha256(key_of(self.key.resolve(environ)).encode()).digest(),
            servers={theirs: UpstreamId(ours) for theirs, ours in self.servers.items()},
            issuers=self.issuers or (public_url,),
            vouches=self.subjects == "vouched",
            groups_property=self.groups or "",
            client=self.client or "",
            scopes=frozenset(self.scopes),
            types={},
        )


class AuthzenPlane(AskingPlane):
    tasks: bool = False
    """Whether what it tells of a user's task counts, of clients that are trusted hosts here."""
    reports: Literal["results", "none"] = "results"
    report_within: Duration = written("120s")
    duties: tuple[Literal["replace_result"], ...] = ()
    access_requests: bool = False
    """Whether people are asked once it submits a request for access, and by no refusal."""
    resources: dict[Word, ForeignTypeSection] = written({})
    """Types of resources that are not MCP's, and which tools their actions are."""

    @model_validator(mode="after")
    def _of_one_mind(self) -> Self:
        if self.duties and self.reports == "none":
            raise ValueError("`duties` are about results, which `reports: none` never tells")
        return self

    @property
    def named(self) -> frozenset[str]:
        """The servers that it may ask about, as they are called here."""
        return super().named | {one.server for one in self.resources.values()}

    def value(self, name: str, environ: Mapping[str, str], public_url: str) -> Plane:
        """Return the domain's form; see `asking`."""
        return replace(
            self.asking(name, environ, public_url),
            tasks=self.tasks,
            reports=Reports(self.reports),
            report_within_s=self.report_within,
            duties=frozenset(self.duties),
            access_requests=self.access_requests,
            types={
                type_: ForeignType(server=UpstreamId(one.server), actions=one.actions)
                for type_, one in self.resources.items()
            },
        )


class InterceptorHostSection(Section):
    key: SecretReference
    """What it sends as its bearer token."""
    servers: Annotated[dict[Word, Word], Field(min_length=1)]
    """What it calls servers -> the name that they have here."""
    client: Word
    """The client that it is here; without `asserts` it acts for itself."""
    asserts: bool = False
    """Whether whom it names as the principal of a call counts."""
    issuers: Words = ()
    """For whose people; `public_url` if nothing is given."""
    subjects: Literal["known", "vouched"] = "known"
    groups: Word | None = None
    """The claim of a principal that names its groups, if the host vouches."""
    scopes: tuple[_Scope, ...] = ("tools:list", "tools:call", "prompts", "resources")
    report_within: Duration = written("120s")
    duties: tuple[Literal["replace_result"], ...] = ()
    runs: Literal["one", "host"] = "one"
    """`host`: each of its sessions is a run of its own, if its client is a trusted host here."""

    @field_validator("key")
    @classmethod
    def _a_long_one(cls, ref: SecretRef, info: ValidationInfo) -> SecretRef:
        return long_enough(ref, info)

    @model_validator(mode="after")
    def _of_one_mind(self) -> Self:
        if not self.asserts and (self.issuers or self.groups or self.subjects == "vouched"):
            raise ValueError(
                "`issuers`, `subjects` and `groups` are of principals that it `asserts`"
            )
        if self.groups is not None and self.subjects != "vouched":
            raise ValueError("`groups` goes with `subjects: vouched`; those known here have ours")
        return self

    def value(self, name: str, environ: Mapping[str, str], public_url: str) -> InterceptorHost:
        """Return the domain's form; `environ` is where its key may be.

        Raises:
            ValueError: Its key is missing or too short.

        """
        sessions = self.runs == "host"
        plane = Plane(
            name=name,
            key_digest=sha256(key_of(self.key.resolve(environ)).encode()).digest(),
            servers={theirs: UpstreamId(ours) for theirs, ours in self.servers.items()},
            issuers=self.issuers or (public_url,),
            vouches=self.subjects == "vouched",
            groups_property=self.groups or "",
            client=self.client,
            scopes=frozenset(self.scopes),
            tasks=sessions,  # whoever is trusted with runs of its own
            report_within_s=self.report_within,
            duties=frozenset(self.duties),
            types={},
        )
        return InterceptorHost(plane=plane, asserts=self.asserts, sessions=sessions)


class CarriedPlane(AskingPlane):
    """A plane that shows all of a call, by gRPC."""

    deadline: Duration = written("1500ms")
    """It gives up after so long; a yes that comes later is a no."""

    def carried(
        self, kind: PlaneKind, name: str, environ: Mapping[str, str], public_url: str
    ) -> Plane:
        """Return the domain's form; see `asking`."""
        plane = self.asking(name, environ, public_url)
        return replace(plane, kind=kind, deadline_s=self.deadline)


class RoutedPlane(CarriedPlane):
    """An Envoy: its clients come to each server by one path, which it sends on or makes another of."""

    paths: dict[Word, Word] = written({})
    """What it calls a server -> the path by which its clients come there; without, `/mcp/` and the name."""

    @model_validator(mode="after")
    def _to_servers_of_its_own(self) -> Self:
        for server, path in self.paths.items():
            if server not in self.servers:
                raise ValueError(f"`paths` names `{server}`, which is none of `servers`")
            if not path.startswith("/") or set(path) & {"?", "#"}:
                raise ValueError(f"`{path}` is no path: it begins with `/`, and has no query")
        return self

    def carried(
        self, kind: PlaneKind, name: str, environ: Mapping[str, str], public_url: str
    ) -> Plane:
        """Return the domain's form; see `asking`."""
        return replace(super().carried(kind, name, environ, public_url), paths=self.paths)


class SilentPlane(RoutedPlane):
    """One that shows nothing of what comes back: Envoy's ext_authz."""

    def value(self, name: str, environ: Mapping[str, str], public_url: str) -> Plane:
        """Return the domain's form; see `asking`."""
        plane = self.carried(PlaneKind.EXT_AUTHZ, name, environ, public_url)
        return replace(plane, reports=Reports.NONE)


class SeenPlane(CarriedPlane):
    """One through which results go: Envoy's ext_proc, agentgateway's ExtMCP."""

    report_within: Duration = written("120s")

    def seen(
        self, kind: PlaneKind, name: str, environ: Mapping[str, str], public_url: str
    ) -> Plane:
        """Return the domain's form; see `asking`."""
        plane = self.carried(kind, name, environ, public_url)
        duties = frozenset({REPLACE_RESULT})
        return replace(plane, report_within_s=self.report_within, duties=duties)


class ExtProcPlane(RoutedPlane, SeenPlane):
    def value(self, name: str, environ: Mapping[str, str], public_url: str) -> Plane:
        """Return the domain's form; see `asking`."""
        return self.seen(PlaneKind.EXT_PROC, name, environ, public_url)


class ExtMcpPlane(SeenPlane):
    def value(self, name: str, environ: Mapping[str, str], public_url: str) -> Plane:
        """Return the domain's form; see `asking`."""
        return self.seen(PlaneKind.EXT_MCP, name, environ, public_url)


PlaneSection: TypeAlias = AuthzenPlane | SilentPlane | ExtProcPlane | ExtMcpPlane


class GrpcListener(Section):
    """Where planes ask by gRPC."""

    listen: GrpcAddress
    """`HOST:PORT`, or `unix:` and the path of a socket."""
    certificate: LocalPath | None = None
    key: LocalPath | None = None
    """PEM files; without them it listens for this machine alone."""
    client_ca: LocalPath | None = None
    """PEM file: nobody connects without a certificate of this authority."""

    @model_validator(mode="after")
    def _for_nobody_in_between(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` go together")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("`client_ca` goes with `certificate` and `key`")
        if self.certificate is None and not self.listen.is_local:
            raise ValueError(
                "`listen` is open to other machines, and keys and arguments would cross the network "
                "in the clear: name `certificate` and `key`, or listen on 127.0.0.1 or `unix:`"
            )
        return self


class Planes(Section):
    authzen: dict[_Name, AuthzenPlane] = written({})
    """Who may ask at `/access/v1`, by the name that records have for them."""
    experimental_interceptors: dict[_Name, InterceptorHostSection] = written({})
    """Hosts that may invoke interceptors at `/interceptors`, by their names; no plane has the same."""
    ext_authz: dict[_Name, SilentPlane] = written({})
    ext_proc: dict[_Name, ExtProcPlane] = written({})
    ext_mcp: dict[_Name, ExtMcpPlane] = written({})
    """Who may ask by gRPC, and in whose words."""
    grpc: GrpcListener | None = None

    @property
    def every(self) -> Iterator[tuple[str, str, PlaneSection]]:
        """Each plane: the kind that it is written under, its name, and what is written."""
        kinds: Mapping[str, Mapping[str, PlaneSection]] = {
            "authzen": self.authzen,
            "ext_authz": self.ext_authz,
            "ext_proc": self.ext_proc,
            "ext_mcp": self.ext_mcp,
        }
        for kind, planes in kinds.items():
            yield from ((kind, name, plane) for name, plane in planes.items())

    @model_validator(mode="after")
    def _told_apart_and_heard(self) -> Self:
        names = [name for _, name, _ in self.every]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"`{name}` is the name of two; records tell planes apart by it")
        if self.grpc is None and len(names) > len(self.authzen):
            raise ValueError("`grpc.listen` says where planes ask by gRPC, and is missing")
        return self
