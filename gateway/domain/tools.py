"""What can be called, and what a person approved of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NewType

from gateway.domain._value import value
from gateway.domain.document import Digest, Document

UpstreamId = NewType("UpstreamId", str)
"""The name under `servers` in the configuration."""

OWN = UpstreamId("")
"""The gateway itself, where it answers at the endpoint in front of all servers. No server can be
called so."""


class Kind(StrEnum):
    """What a target is; the words are the policy contract's, and `SERVER` is the pins'."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"
    TEMPLATE = "template"
    COMPLETION = "completion"
    SERVER_REQUEST = "server_request"
    SERVER = "server"


class Profile(StrEnum):
    """In which family of revisions an upstream was seen; the same tool may differ between them."""

    LEGACY = "legacy"
    """2025-03-26 to 2025-11-25: a handshake and sessions."""
    MODERN = "modern"
    """2026-07-28: stateless."""


@value
class Target:
    """What a call is for. Never split from a string: looked up."""

    server: UpstreamId
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.server}/{self.kind}/{self.name}"

    @property
    def approved_name(self) -> str:
        """What its calls are counted under: the name that a person approved.

        A resource has none: its URI is in its reader's own words, as many and as long as they like.
        All of a server's count as one, or nobody's count would ever be full.
        """
        kind = f"{self.server}/{self.kind.value}"
        return kind if self.kind is Kind.RESOURCE else f"{kind}/{self.name}"


MAPPING: Final = "x-authzen-mapping"
"""The member of a tool's `inputSchema` in which its server says how planes ask about its calls."""


@value
class Manifest:
    """A target's whole definition as its upstream advertises it: its raw JSON, nothing dropped."""

    target: Target
    profile: Profile
    definition: Document
    server_version: str = ""
    """`serverInfo.version` beside it; recorded, not hashed."""
    identity: str = ""
    """Whose definition it is: its upstream's configured URL without the query; not hashed."""

    def is_same(self, other: "Manifest") -> bool:
        """Whether `other` is this definition, of this server; of whichever release."""
        return (self.digest, self.identity) == (other.digest, other.identity)

    @property
    def digest(self) -> Digest:
        """SHA-256 over the RFC 8785 form."""
        return self.definition.digest

    @property
    def is_mapped(self) -> bool:
        """Whether its server says how others' planes ask about its calls (AuthZEN, COAZ-MCP binding)."""
        schema = self.definition.content.get("inputSchema")
        return isinstance(schema, dict) and MAPPING in schema

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The `annotations` member, or nothing."""
        found = self.definition.content.get("annotations")
        return found if isinstance(found, dict) else {}


MOST_EXPRESSIONS: Final = 16
"""Of a resource template: what was put into one is told in time that grows with their square."""


class PinStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DRIFTED = "drifted"
    REVOKED = "revoked"


@value
class PinApproval:
    """One yes to one definition: whose, and what they had before them."""

    digest: str
    """`sha256:...` of the definition that was reviewed."""
    by: str
    user_id: str = ""
    """The person's `User.id`; empty for who is no person of `users`, and for policy."""
    at: float
    """Seconds since the epoch."""
    note: str = ""
    tier: str
    """How far the change reached from what was approved before: `T0` to `T3`, or `new`."""
    findings: tuple[str, ...] = ()
    """Codes of the hints that were not there before."""
    server_version: str = ""
    version_changed: bool = False
    expires_at: float | None = None
    """Seconds since the epoch; `None` for never."""


@value
class Pin:
    """What is known of one target: what a person approved, and what was last seen.

    Drift stays until a person acts, also when the upstream changes back.
    """

    target: Target
    profile: Profile
    status: PinStatus
    observed: Manifest
    approved: Manifest | None
    approved_by: str = ""
    approved_at: float | None = None
    """Seconds since the epoch."""
    first_seen: float
    note: str = ""
    approvals: tuple[PinApproval, ...] = ()
    """What the approved definition rests on."""
    filed: tuple[PinApproval, ...] = ()
    """Approvals of what is shown now, of which more are needed."""
    expires_at: float | None = None
    """When the approval ends, in seconds since the epoch; `None` for never."""
    body_digest: str = ""
    """`sha256:...` of what a prompt without arguments said when it was first used."""


@value
class Pinned:
    """Proof that `manifest` is what `pin` approved. Made only by `gateway.pins.verify`."""

    manifest: Manifest
    pin: Pin


class Disposition(StrEnum):
    """What policy wants done with a changed manifest (`data.douane.pin`)."""

    HOLD = "hold"
    """It waits for a person, and calls are refused meanwhile."""
    APPROVE = "approve"
    """The new definition counts as approved, by policy."""
    SERVE_APPROVED = "serve_approved"
    """The approved definition stays in force and is what is listed."""


@value
class Sighting:
    """One manifest as it was just seen, and what is to be done where it is not what was pinned."""

    manifest: Manifest
    disposition: Disposition = Disposition.HOLD
    judged_beside: Manifest | None = None
    """What it was compared with when policy was asked; beside anything else its word is none."""
    told: Mapping[str, Any] | None = None
    """How it differs from that, as policy was told; `None` where nobody has compared them."""
    seen_at: float
    """Seconds since the epoch."""
