"""Who is asking: credentials before they are checked, principals after, and who is registered."""

from dataclasses import field
from enum import StrEnum
from typing import Final

from gateway.domain._value import follows, value
from gateway.domain.scripts import ScriptId
from gateway.domain.selection import EVERY_SERVER, Selection
from gateway.domain.tools import OWN, UpstreamId

BY_PLANE: Final = "plane:"
"""What a principal's `token_id` begins with where a plane named it and no token did."""
PROGRAM: Final = "client:"
"""What the name of a client begins with that acts for itself, before its id: in `created_by`, too."""


@value
class BearerToken:
    """An access token as it came off the wire, unverified (RFC 6750 section 2.1)."""

    text: str = field(repr=False)


@value
class Proof:
    """That whoever sent one request holds a key (RFC 9449). It is not what they sent.

    Read once a request: of two that are equal, each is another request's.
    """

    key: str
    """The RFC 7638 thumbprint of the key."""
    use: bytes
    """Stands for the key and the proof's `jti`: the same twice is a replay."""
    made_at: float
    """Seconds since the epoch, by the sender's clock; like `until`."""
    until: float
    """After it nobody can come with it any more."""


@value
class BoundToken:
    """An access token as it came off the wire, unverified, with a good proof beside it.

    The proof is for this token: whose key the token is bound to, is for the gate to compare.
    """

    text: str = field(repr=False)
    proof: Proof


@value
class Carried:
    """What the token said of itself with which a call came to a plane that shows its claims."""

    scopes: frozenset[str] = frozenset()
    """What it is for; nothing where the plane does not say."""
    audience: str = ""
    """The one resource that it is for; empty where it is for several, or the plane does not say."""
    grant_id: str = ""
    token_id: str = ""
    is_bound: bool = False
    """To a key that the plane has no proof of."""
    is_for_another: bool = False
    """It names somebody who acts for its subject."""
    is_whole: bool = True
    """Whether the plane shows all that it says: else nobody knows whether it is bound."""


@value
class Asserted:
    """What a registered plane says of whose call it asks about, once it is known which plane it is.

    To whoever reads tokens it is an empty one, which opens nothing.
    """

    plane: str
    issuer: str
    subject: str
    client_id: str
    groups: frozenset[str] = frozenset()
    shown: Carried | None = None
    """What the token said, where the plane shows its claims."""
    server: UpstreamId = OWN
    """Which server the call is for; `OWN` where only whose it is counts."""

    @property
    def text(self) -> str:
        return ""


Credential = BearerToken | BoundToken | Asserted | None
"""What a request carried to prove who sends it; `None` is nothing at all."""


@value
class Actor:
    """A client that acts for somebody, or for itself: whose runs are one, whatever its grants."""

    issuer: str
    subject: str
    client_id: str
    program: str = ""
    """See `Principal.program`."""


@value
class Principal:
    """A verified subject, and the client acting for it (RFC 8693 section 4.1).

    Made only by an `Authenticator`, for one endpoint.
    """

    issuer: str
    """Who vouches for `subject`: we, or the identity provider at which the person signs in."""
    subject: str
    """The person; a client that acts for itself is its own subject."""
    client_id: str
    client_name: str
    groups: frozenset[str]
    scopes: frozenset[str]
    token_id: str
    """The token's `jti` (RFC 7519 section 4.1.7); never the token."""
    expires_at: float
    """Seconds since the epoch."""
    people: int | None = field(compare=False)
    """How often rights of anybody had ended when it was looked up who this is: what its calls rest
    on. `None` where nobody here can end them, because another issuer's token is all that there is."""
    user_id: str = ""
    """The person's `User.id`; empty where no person stands behind the client."""
    trusted_host: bool = False
    """Whether an administrator lets this client declare its user's task."""
    script: ScriptId | None = None
    """The one program that the token is for, where it is for one."""
    program: str = ""
    """What the client calls itself, if it registered itself for a person: hosts do that once for
    each endpoint, and are one program all the same. Empty for any other."""
    servers: Selection = EVERY_SERVER
    """Those of the servers that policy shows it which it wants to see in this conversation, in front
    of all servers."""

    named: str = field(default="", compare=False)
    """How records name it: by its bare subject if we vouch for it ourselves, else with its issuer."""

    key: str = field(default="", compare=False, repr=False)
    """Names the grant: everything that belongs to this principal is filed under it. Made of the others."""

    person: str = field(default="", compare=False, repr=False)
    """Names whoever is asked for, with whatever client: people make clients by themselves. What is
    shared out, a turn or a place, is shared out among these."""

    recorded: str = field(default="", compare=False, repr=False)
    """The name in records, which no principal of another issuer has."""

    def __post_init__(self) -> None:
        follows(self, "person", f"{self.issuer}|{self.subject}")
        follows(self, "key", f"{self.person}|{self.client_id}")
        follows(self, "recorded", self.named or self.subject)

    @property
    def actor(self) -> Actor:
        """Whose runs its calls are in: nothing of the grant says so, which a client gets by itself."""
        return Actor(
            issuer=self.issuer, subject=self.subject, client_id=self.client_id, program=self.program
        )


class ClientKind(StrEnum):
    """How a client came to be known."""

    REGISTERED = "registered"
    """An administrator registered it; what they wrote is the most it may have."""
    DYNAMIC = "dynamic"
    """It registered itself (RFC 7591); a person's consent is all it can get."""
    DOCUMENT = "document"
    """Its id is the URL of the document that describes it (Client ID Metadata Documents)."""


class AuthMethod(StrEnum):
    """How a client proves itself at the token endpoint (RFC 7591 section 2, RFC 7523)."""

    NONE = "none"
    BASIC = "client_secret_basic"
    POST = "client_secret_post"
    PRIVATE_KEY_JWT = "private_key_jwt"


@value
class Client:
    """An OAuth client (RFC 6749 section 2)."""

    id: str
    name: str
    kind: ClientKind = ClientKind.REGISTERED
    auth_methods: frozenset[AuthMethod] = frozenset({AuthMethod.BASIC, AuthMethod.POST})
    """What it may prove itself with; `NONE` alone makes it a public client."""
    secret_hash: str = field(default="", repr=False)
    """`sha256:` of a secret of 256 random bits; such a one needs no slow hash."""
    jwks: str = ""
    """Its public keys as JSON (RFC 7517 section 5), for `private_key_jwt`."""
    redirect_uris: tuple[str, ...] = ()
    homepage: str = ""
    """An https URL to show to people; never fetched."""
    grants: tuple[str, ...] = ("client_credentials",)
    resources: frozenset[str] = frozenset()
    """Endpoint paths it may get tokens for: `/mcp/mail`. The most for a `REGISTERED` one only."""
    scopes: frozenset[str] = frozenset()
    """The most that its tokens may carry. The most for a `REGISTERED` one only."""
    groups: frozenset[str] = frozenset()
    """Its own groups, where it acts for itself. A person's groups are the person's."""
    trusted_host: bool = False
    """Whether it may declare its user's task."""
    holds_key: bool = False
    """Whether it wants no tokens but those that are bound to a key of its own (RFC 9449 section 5.2)."""
    created_at: float
    created_by: str
    fresh_until: float | None = None
    """Until when a `DOCUMENT` may be used without fetching it again."""

    @property
    def is_public(self) -> bool:
        """Whether it has nothing to prove itself with (RFC 6749 section 2.1)."""
        return self.auth_methods == {AuthMethod.NONE}

    @property
    def known_as(self) -> str:
        """Its name where a call says whose it is: never its id, by which those go whom nobody knows."""
        return self.name if self.name != self.id else f"client {self.id}"

    def may_use(self, endpoint: str) -> bool:
        """Whether it may get tokens for `endpoint`.

        What registered itself could have asked for anything: its wish on the first day is no
        ceiling (MCP clients register with the scopes of their first challenge), the person's
        consent is.
        """
        return self.kind is not ClientKind.REGISTERED or endpoint in self.resources

    def ceiling(self, scopes: frozenset[str]) -> frozenset[str]:
        """Return those of `scopes` that its tokens may carry."""
        return scopes & self.scopes if self.kind is ClientKind.REGISTERED else scopes


@value
class User:
    """A person who may sign in. Told apart by issuer and subject alone, never by an address."""

    id: str
    """Ours, in hex; the `sub` of our tokens."""
    issuer: str
    """Our own for those with a password here, else the identity provider's."""
    subject: str
    """The user name here, or the provider's `sub`."""
    name: str
    """For people to read."""
    groups: frozenset[str]
    os_user: str = ""
    """The operating system's user that is this person at the command line."""
    created_at: float
    created_by: str
    disabled: bool = False
    disabled_at: float = 0.0
    """When they last were, in seconds since the epoch, whether or not they are still; 0 for never."""


@value
class Absence:
    """Who of those whom something was allowed to was not there last."""

    who: str = ""
    """In a few words; empty where nobody lacked ever, as far as is known."""
    until: float = 0.0
    """Seconds since the epoch; without end where they are not there still."""

    def since(self, moment: float) -> str:
        """Return who was not there at any time after `moment`; nothing if all were."""
        return self.who if self.until > moment else ""


def acting(client: Client, user: User) -> Actor:
    """Return what `client` is where it acts for `user`."""
    return Actor(
        issuer=user.issuer,
        subject=user.subject,
        client_id=client.id,
        program=client.name if client.kind is ClientKind.DYNAMIC else "",
    )


def named_in_records(issuer: str, subject: str, *, own: str) -> str:
    """Return how records name whoever `issuer` calls `subject`; `own` is our own issuer.

    A name of ours holds no `|` and an issuer is a URL, so no two people have one name.
    """
    return subject if issuer == own else f"{issuer}|{subject}"
