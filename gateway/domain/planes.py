"""Data planes of others, which carry calls and ask here whether they may."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from gateway.domain._value import value
from gateway.domain.flow import RunId, Source
from gateway.domain.tools import UpstreamId

REPLACE_RESULT: Final = "replace_result"
"""The one duty that a plane can promise: to give out the result that it is answered with, and no other."""

DUTY: Final = "urn:douane:duty:"
"""Before the name of a duty: what an obligation's type is (AuthZEN, obligations profile)."""


class Reports(StrEnum):
    """What a plane tells of the calls that it was allowed."""

    RESULTS = "results"
    NONE = "none"


class PlaneKind(StrEnum):
    """In whose words a plane asks."""

    AUTHZEN = "authzen"
    EXT_MCP = "ext_mcp"
    """agentgateway's `mcpGuardrails`."""
    EXT_AUTHZ = "ext_authz"
    """Envoy's, which shows what goes out and nothing of what comes back."""
    EXT_PROC = "ext_proc"
    """Envoy's, through which everything goes."""


@value
class ForeignType:
    """How questions about a type of resource that is not MCP's become calls of tools."""

    server: UpstreamId
    actions: Mapping[str, str]
    """An action's name -> the tool that it is."""


@value
class Plane:
    """A policy enforcement point, as an operator registered it."""

    name: str
    key_digest: bytes = field(repr=False)
    """SHA-256 of what it proves itself with."""
    servers: Mapping[str, UpstreamId]
    """What it calls servers -> ours; it may ask about no other."""
    issuers: tuple[str, ...]
    """For whose people it may ask; the first one where a question names none."""
    vouches: bool = False
    """Whether it may ask for people who are not known here, and say their groups."""
    groups_property: str = ""
    """Which property of a subject names its groups, if the plane vouches."""
    client: str = ""
    """The one client that it carries calls of; empty where questions name it."""
    scopes: frozenset[str]
    """The most that its calls may do."""
    tasks: bool = False
    """Whether it may pass on the tasks that trusted hosts declare."""
    reports: Reports = Reports.RESULTS
    report_within_s: float = 120.0
    duties: frozenset[str] = frozenset()
    access_requests: bool = False
    """Whether it asks people by submitting a refusal; without it each refusal asks them."""
    types: Mapping[str, ForeignType]
    kind: PlaneKind = PlaneKind.AUTHZEN
    deadline_s: float = 1.5
    """How long it waits for an answer; a later yes is a no."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Of those of its servers whose clients come by another path than `path_of` says by itself."""

    def path_of(self, server: str) -> str:
        """Return the one path by which clients come to what it calls `server`."""
        return self.paths.get(server, f"/mcp/{server}")

    @property
    def gives_ours(self) -> bool:
        """Whether whatever it sends and gives out is what it was answered with, lists as well."""
        return self.kind in {PlaneKind.EXT_MCP, PlaneKind.EXT_PROC}


@value
class InterceptorHost:
    """A host that has its calls looked at by an MCP interceptor of ours (SEP-2624, a draft)."""

    plane: Plane
    """What it may ask about, for whose people."""
    asserts: bool
    """Whether the principal that it names counts; else it acts for itself."""
    sessions: bool
    """Whether each of its sessions is a run of its own."""


@value
class Debt:
    """A call that a plane was allowed, and whose result it has not reported yet.

    Until it has, the run counts as if it had read the worst that could come.
    """

    decision: str
    run: RunId
    source: Source
    """The worst, and where its intent stands in the log; below zero as long as that is not known."""
    due: float
    """Seconds since the epoch: from then on it is not reported any more."""
