"""Data planes of others that may ask for decisions: the section `planes` of `douane.yaml`."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from gateway.config.section import Section, Word, Words, written
from gateway.config.values import Duration, Secret, SecretRef, SecretReference
from gateway.domain.planes import ForeignType, InterceptorHost, Plane, Reports
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


class AuthzenPlane(Section):
    key: SecretReference
    """What it sends as its bearer token."""
    servers: Annotated[dict[Word, Word], Field(min_length=1)]
    """What it calls servers -> the name that they have here."""
    issuers: Words = ()
    """For whose people it may ask; `public_url` if nothing is given."""
    subjects: Literal["known", "vouched"] = "known"
    """`vouched`: also for people who are not known here."""
    groups: Word | None = None
    """The property of a subject that names its groups, if it vouches."""
    client: Word | None = None
    """The one client whose calls it carries; without it each question names one."""
    scopes: tuple[_Scope, ...] = ("tools:list", "tools:call", "prompts", "resources")
    tasks: bool = False
    """Whether what it tells of a user's task counts, of clients that are trusted hosts here."""
    reports: Literal["results", "none"] = "results"
    report_within: Duration = written("120s")
    duties: tuple[Literal["replace_result"], ...] = ()
    access_requests: bool = False
    """Whether people are asked once it submits a request for access, and by no refusal."""
    resources: dict[Word, ForeignTypeSection] = written({})
    """Types of resources that are not MCP's, and which tools their actions are."""

    @field_validator("key")
    @classmethod
    def _a_long_one(cls, ref: SecretRef, info: ValidationInfo) -> SecretRef:
        return long_enough(ref, info)

    @model_validator(mode="after")
    def _of_one_mind(self) -> Self:
        if self.groups is not None and self.subjects != "vouched":
            raise ValueError("`groups` goes with `subjects: vouched`; those known here have ours")
        if self.duties and self.reports == "none":
            raise ValueError("`duties` are about results, which `reports: none` never tells")
        return self

    @property
    def named(self) -> frozenset[str]:
        """The servers that it may ask about, as they are called here."""
        return frozenset({*self.servers.values(), *(one.server for one in self.resources.values())})

    def value(self, name: str, environ: Mapping[str, str], public_url: str) -> Plane:
        """Return the domain's form; `environ` is where its key may be.

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


class Planes(Section):
    authzen: dict[_Name, AuthzenPlane] = written({})
    """Who may ask at `/access/v1`, by the name that records have for them."""
    experimental_interceptors: dict[_Name, InterceptorHostSection] = written({})
    """Hosts that may invoke interceptors at `/interceptors`, by their names; no plane has the same."""
