"""Where data of a call comes from and where it would go. Reports; decides nothing.

A `Run` is the span over which labels accumulate. It is never chosen by the caller: a hint that
is not known joins the run of all that the client does for its person, and is read as untrusted and
private besides; a call that hints at none joins it as it is, in a session or without one. A session is one with one server, and a conversation goes on over many; a grant is
what a client asks for by itself: both are in that run too. So neither leaving the hint out, nor
opening another session, nor asking for more scope sheds a label. A run of its own is begun by a
host that an administrator trusts to keep its conversations apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NewType

from gateway.domain._value import follows, value
from gateway.domain.document import member_path
from gateway.domain.labels import BOTTOM, Confidentiality, Effect, Integrity, Label

RunId = NewType("RunId", str)
RunHandle = NewType("RunHandle", str)
"""What a host sends in `_meta["douane/run"]` to join a run that it began. Worth nothing to anybody
but the principal who began it."""


LONGEST_SOURCE: Final = 256
"""Characters of what a source is called: it is kept with the run, durably, and told in each record."""


def source_name(name: str) -> str:
    """Return what a source called `name` is kept as: itself, or its beginning and its digest.

    A resource is called by its URI, which is in its reader's own words.
    """
    if len(name) <= LONGEST_SOURCE:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: LONGEST_SOURCE // 2]}... (sha256:{digest})"


@value
class Source:
    """A result that a run has seen."""

    server: str
    tool: str
    """Or the resource, the prompt, the method: as `source_name` has it."""
    record: str
    """Id of the outcome's intent record; a leaf index, where an earlier version noted no id."""
    label: Label


@value
class RunHint:
    """What a call says of the run it belongs to. It can name one; it can shed nothing."""

    handle: str | None = None
    """`_meta["douane/run"]`, as the client sent it."""


@value
class Run:
    id: RunId
    label: Label
    sources: tuple[Source, ...] = ()
    part_of: RunId | None = None
    """The client's whole run, which sees all that this one sees; `None` for that one itself."""
    version: int = field(default=0, compare=False)
    """Another one whenever it says something else: its label, or what that comes from."""
    task: "Task | None" = None
    """What a trusted host declared when it began the run."""
    roamed: bool = False
    """Whether nowhere all is remembered that it has read and written: calls of it were made at several
    gateways, or what raised it was heard in another run, or by nobody."""
    unnamed: bool = False
    """Whether the call that it is given to names another, which we do not know. Its label
    is the strictest for that one call, whatever it has read."""

    is_trusted: bool = field(default=False, compare=False, repr=False)
    """Whether nobody outside can have led it: it has read nothing that an outsider may have written. Made
    of its label."""

    has_read: bool = field(default=False, compare=False, repr=False)
    """Whether it is known to have read what an outsider may have written, or what is private. Made of
    its sources: one that is only not known to be clean has nothing to tell, and nobody has led it
    from here."""

    def __post_init__(self) -> None:
        follows(self, "is_trusted", self.label.integrity is Integrity.TRUSTED)
        has_read = any(
            source.label.integrity is Integrity.UNTRUSTED
            or source.label.confidentiality >= Confidentiality.PRIVATE
            for source in self.sources
        )
        follows(self, "has_read", has_read)


NOWHERE: Final = Run(id=RunId(""), label=BOTTOM)
"""The run in which something is remembered that nobody remembers."""


def untrusted_by(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Return those that an outsider can have written: why a run that has read them is untrusted.

    Where a run is untrusted and has none, it is only not known to be clean.
    """
    return tuple(one for one in sources if one.label.integrity is Integrity.UNTRUSTED)


@value
class RunState:
    """A run as people see it."""

    run: Run
    live: bool
    """Whether the next call can still be in it."""
    idle_s: float
    """Seconds since it was last used, or since the process began."""


@value
class Task:
    """What the user asked for, declared by a host that an administrator trusts to do so."""

    prompt: str | None = None
    tools: tuple[str, ...] | None = None
    """Names of the tools that the task needs; `None`: nothing was declared."""


class Form(StrEnum):
    """What a destination is by its form. `NAME` and `TEXT` may not
    reach anybody, the others do anywhere.
    """

    EMAIL = "email"
    URL = "url"
    ACCOUNT = "account"
    NAME = "name"
    TEXT = "text"
    """Longer than names are: it reaches nobody by itself, and may carry anything."""


class Said(StrEnum):
    """Whether an outsider's words name a value, rather than a list showing it."""

    NOT = ""
    POINTED = "pointed"
    """Only in what the user's own words point at."""
    OUTSIDER = "outsider"


class Proof(StrEnum):
    """Why a destination is known to be good, strongest first; `NONE` is no proof."""

    TENANT = "tenant"
    TASK = "task"
    TYPED = "typed"
    TRUSTED_RESULT = "trusted_result"
    NONE = "none"


class Chosen(StrEnum):
    """Who chose a destination, as far as can be told. The first four are trusted."""

    TENANT = "tenant"
    TASK = "task"
    """The user."""
    TYPED = "typed"
    TRUSTED_RESULT = "trusted_result"
    """Nobody outside: a trusted source has it, in a field for identifiers or elsewhere."""
    PICKED = "picked"
    """A trusted source has it, and an outsider's words name it: out of a list somebody may have picked."""
    POINTED = "pointed"
    """Whoever wrote what the user's words point at."""
    STANDING = "standing"
    """A person, who answered once for whatever this agent sends there with this tool."""
    OWN_ID = "own_id"
    """The tool's own server, as a name of its own."""
    NAME = "name"
    """Nobody outside, as far as can be read; it is no address."""
    OUTSIDER = "outsider"
    """An outsider's words name it."""
    NOBODY = "nobody"


@value
class Destination:
    """One leaf of a destination argument, or a link in a payload."""

    path: str
    """`$.recipients[0]`."""
    value: str
    proof: Proof
    integrity: Integrity
    """Of what proves it: a proof may itself come from where an outsider can write."""
    origin: Mapping[str, Any] | None = None
    """Which source the proof comes from, or, without a proof, where the value was seen:
    `{"server", "tool", "record", "minted", "clean"}`; `minted` says that the server itself gives out
    such values, because the field is named as an identifier, and `clean` that it did so in answer to a
    call that was made before the run had read anything untrusted."""
    form: Form = Form.NAME
    said: Said = Said.NOT
    by: Chosen = Chosen.NOBODY
    answer: str = ""
    """Id of the standing answer that `STANDING` rests on."""


@value
class Match:
    """A piece of an earlier result found in a payload."""

    record: str
    """As `Source.record`; empty where nobody knows of which result it is."""
    kind: str
    """`exact`, `fragment` or `link`."""
    bytes: int
    """How many bytes of the payload it covers, in UTF-8; of the decoded text, if it hid there."""
    decoded: str = ""
    """How the payload or the result hid it: `base64`, `percent+hex`, `unicode`, `spaced`, `reversed`."""
    confidentiality: Confidentiality = Confidentiality.PRIVATE
    """Of the result that it was found in."""


@value
class Payload:
    """One leaf of a payload argument that holds something of earlier results, or that one asks for."""

    path: str
    matches: tuple[Match, ...]
    said: Said = Said.NOT


@value
class Violation:
    """A flow that policies commonly forbid; whether one does is not said here."""

    code: str
    message: str


@value
class FlowReview:
    """What a call would move where: the contract's `flow`."""

    label: Label
    sources: tuple[Source, ...] = ()
    unnamed: bool = False
    """As `Run.unnamed`."""
    destinations: tuple[Destination, ...] = ()
    names_where: bool = False
    """Whether the tool has destination arguments, be they given in this call or not."""
    payload: tuple[Payload, ...] = ()
    links: tuple[Destination, ...] = ()
    """URLs in payload arguments: where they go, whoever follows them goes."""
    asked_for: bool | None = None
    """Whether the user's declared words ask for what the tool does; `None` if none are declared."""
    told: Effect | None = None
    """What a tool that nobody labelled says that it does."""
    left_open: bool = False
    """Whether the user's words leave what is to be done to what they point at."""
    unheard: bool = False
    """Whether the user's words, which ask for nothing that the tool is known to do, order some deed."""
    lasting: bool = False
    """Whether the tool sets up what goes on by itself, by its name."""
    at_home: bool = False
    """Whether what it carries reaches its own server alone, as far as can be read."""
    labelled: tuple[str, ...] = ()
    """The arguments that say where to, by their labels or, of a tool that nobody labelled, by its schema."""
    violations: tuple[Violation, ...] = ()

    @property
    def has_places(self) -> bool:
        """Whether it names anything that the call says."""
        return bool(self.destinations or self.payload or self.links)

    def says_where(self, path: str, text: str) -> bool:
        """Tell whether `text`, at `path`, is said where to, in an argument that is there for that."""
        if not any(one.path == path and text in one.value for one in self.destinations):
            return False
        within = (member_path("$", name) for name in self.labelled)
        return any(path == at or path.startswith((f"{at}.", f"{at}[")) for at in within)
