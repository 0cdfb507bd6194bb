"""Information-flow labels: a lattice of integrity and confidentiality, and what is labelled.

Labels only ever climb: joining two takes the lower integrity and the higher confidentiality
(Denning, 1976). Nothing here lowers one.
"""

from enum import IntEnum, StrEnum
from typing import Self

from gateway.domain._value import value


class Integrity(IntEnum):
    UNTRUSTED = 0
    TRUSTED = 1

    @property
    def word(self) -> str:
        """The contract's spelling."""
        return _INTEGRITY_WORDS[self]


class Confidentiality(IntEnum):
    PUBLIC = 0
    INTERNAL = 1
    PRIVATE = 2
    SECRET = 3

    @property
    def word(self) -> str:
        """The contract's spelling."""
        return _CONFIDENTIALITY_WORDS[self]


# Every call tells labels a dozen times, and asking an enumeration for a name takes a while.
_INTEGRITY_WORDS = tuple(level.name.lower() for level in Integrity)
_CONFIDENTIALITY_WORDS = tuple(level.name.lower() for level in Confidentiality)


@value
class Label:
    integrity: Integrity
    confidentiality: Confidentiality

    def join(self, other: Self) -> Self:
        """Return the least label that is at least as restrictive as both."""
        if self.integrity <= other.integrity and self.confidentiality >= other.confidentiality:
            return self  # nearly always, once a run has seen something
        return type(self)(
            integrity=min(self.integrity, other.integrity),
            confidentiality=max(self.confidentiality, other.confidentiality),
        )

    @property
    def words(self) -> dict[str, str]:
        """The contract's form: `{"integrity", "confidentiality"}`."""
        return {
            "integrity": _INTEGRITY_WORDS[self.integrity],
            "confidentiality": _CONFIDENTIALITY_WORDS[self.confidentiality],
        }


BOTTOM = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PUBLIC)
"""What nothing has touched yet."""

STRICTEST_DEFAULT = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)
"""How a result is read that nobody labelled."""


class Effect(StrEnum):
    """What calling a tool does to the world, mildest first."""

    READ = "read"
    WRITE = "write"
    EGRESS = "egress"
    PAY = "pay"
    DESTROY = "destroy"
    CREDENTIAL = "credential"
    EXECUTE = "execute"


@value
class ToolRule:
    """What an administrator says of a tool (`servers.S.tools.T` of the configuration)."""

    effect: Effect | None = None
    """`None`: read from the approved annotations (`readOnlyHint: true` is a read, else destroy)."""
    destination: tuple[str, ...] = ()
    """Names of top-level arguments that say who or what is affected."""
    payload: tuple[str, ...] = ()
    """Names of top-level arguments that carry content."""
    result: Label | None = None
    """`None`: the server's default."""
    typed: tuple[str, ...] = ()
    """JSONPath-like patterns (`$.items[*].sender`) of result fields that hold identifiers."""


@value
class ServerRule:
    """What an administrator says of a whole server (`servers.S` of the configuration)."""

    default: Label = STRICTEST_DEFAULT
    tools: dict[str, ToolRule]

    def tool(self, name: str) -> ToolRule:
        """Return the rule of tool `name`; an unlisted tool has the empty, strictest one."""
        return self.tools.get(name, _NO_RULE)

    def result_of(self, name: str) -> Label:
        """Return the label of the results of tool `name`: its own, else the server's default."""
        own = self.tools.get(name, _NO_RULE).result
        return self.default if own is None else own


_NO_RULE = ToolRule()


@value
class Tenant:
    """What is ours: known-good destinations (`tenant` of the configuration)."""

    self_: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
