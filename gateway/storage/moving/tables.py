"""The tables that are moved: what each has on both sides, and how it is spelled where they differ."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from gateway.domain._value import value


class Form(Enum):
    """How PostgreSQL has what SQLite has in a column."""

    SAME = "same"
    GIVEN = "given"
    """A text as octets, as somebody else has given it: see `state.Given`."""
    FLAG = "flag"
    """1 and 0 as true and false."""
    SHOWN = "shown"
    """A text of which U+2400 stands for what PostgreSQL cannot hold, on the way back as well."""
    LIST = "list"
    """JSON as octets, spelled as `PostgresAllowance` spells it."""


@value
class Column:
    """One of a table's."""

    name: str
    there: str
    """Its name in PostgreSQL."""
    form: Form = Form.SAME


@value
class Kept:
    """One table that both have."""

    name: str
    columns: tuple[Column, ...]
    there: str
    """Its name in PostgreSQL."""
    identity: bool = False
    """Whether SQLite has it in the file of identity."""
    order: tuple[str, str] | None = None
    """By what its rows are in order, in SQLite and in PostgreSQL; without it their order says nothing."""
    fits: str = ""
    """A column by which PostgreSQL finds its rows: those of which it is too long for that stay behind."""
    only: str = ""
    """Of which rows it consists in PostgreSQL, where others are beside them: a condition."""
    fixed: tuple[tuple[str, object], ...] = ()
    """What PostgreSQL has besides in each of them."""


_FORMS: Final = {"*": Form.GIVEN, "?": Form.FLAG, "~": Form.LIST, "!": Form.SHOWN}
"""The sign behind a column's name."""


def _column(said: str) -> Column:
    form = _FORMS.get(said[-1], Form.SAME)
    name, _, there = said.rstrip("".join(_FORMS)).partition(":")
    return Column(name=name, there=there or name, form=form)


def _kept(
    name: str,
    columns: str,
    *,
    there: str = "",
    identity: bool = False,
    order: tuple[str, str] | None = None,
    fits: str = "",
    only: str = "",
    fixed: Mapping[str, object] | None = None,
) -> Kept:
    return Kept(
        name=name,
        columns=tuple(map(_column, columns.split())),
        there=there or name,
        identity=identity,
        order=order,
        fits=fits,
        only=only,
        fixed=tuple((fixed or {}).items()),
    )


def _both(name: str) -> tuple[str, str]:
    return (name, name)


TILES: Final = _kept("tiles", "tile root", order=_both("tile"))
CHECKPOINTS: Final = _kept("checkpoints", "size note previous link", order=_both("size"))
RECORDS: Final = _kept("audit", "leaf_index leaf_hash body", order=_both("leaf_index"))
"""Its other columns are what the records say, and are made of them anew."""
GROWING: Final = (TILES, CHECKPOINTS, RECORDS)
"""Nothing of them ever changes, and the first column counts: they are moved piece by piece."""

PINS: Final = _kept(
    "pins",
    "server kind name* profile status observed observed_version approved:approved_text approved_version"
    " approved_by approved_at first_seen note approvals filed expires_at body_digest observed_identity"
    " approved_identity",
    fits="name",
)

BEFORE_THE_FRONT: Final = (
    _kept("cosignatures", "size witness line"),
    _kept("archives", "first stop path! sha256 made_us"),
)
"""Those that say what may leave the log."""

STATE: Final = (
    _kept("holds", "name! first"),
    _kept("cursors", "name! leaf_index"),
    PINS,
    _kept(
        "approvals",
        "id fingerprint principal state span answered_by answered_by_id answered_at note asked asked_at"
        " expires_at question",
    ),
    # Which gateway remembers what they have read is not known: none does.
    _kept(
        "runs",
        "id owner part_of integrity confidentiality ended? version",
        order=_both("began"),
        fixed={"roamed": True},
    ),
    _kept(
        "run_sources",
        "run server! tool! record! integrity confidentiality",
        order=("rowid", "listed"),
        fits="tool",
    ),
    _kept("run_owners", "owner generation person"),
    _kept("scripts", "id principal most used began expires_at ended? sealed"),
    _kept("script_grants", "script place most used"),
    _kept("parked_scripts", "script sealed"),
    _kept("late_calls", "id decision_id expires_at progress sealed"),
    _kept("server_choices", "principal number names but? runs session", order=_both("made")),
    _kept("front_sessions_ended", "session ended_at"),
    _kept("front_subscriptions", "session uri since", fits="uri"),
    _kept("plane_debts", "decision run server tool record integrity confidentiality due"),
    _kept("baselines", "subject state"),
    _kept("disclosures", "owner key used"),
    _kept(
        "usage",
        "quota under~ begin:begins used",
        there="quota_counts",
        only="replica = ''",
        fixed={"replica": ""},
    ),
)

IDENTITY: Final = (
    _kept(
        "clients",
        "id name kind auth_methods secret_hash jwks redirect_uris homepage grants resources scopes groups"
        " trusted_host created_at created_by fresh_until holds_key",
        identity=True,
    ),
    _kept(
        "users",
        "id issuer subject name groups os_user password created_at created_by disabled disabled_at",
        identity=True,
    ),
    _kept("links", "link_hash user_id expires_at", identity=True),
    _kept(
        "sessions",
        "id_hash user_id created_at expires_at source_ip user_agent proven_at",
        identity=True,
    ),
    _kept(
        "transactions",
        "id browser_hash purpose request detail created_at expires_at finished_at user_id provider secrets",
        identity=True,
    ),
    _kept("consents", "user_id client_id endpoint redirect_uri scopes given_at", identity=True),
    _kept(
        "grants",
        "id user_id client_id endpoint scopes created_at expires_at revoked_at reason doubted_at",
        identity=True,
    ),
    _kept(
        "codes",
        "code_hash grant_id client_id redirect_uri code_challenge expires_at used_at bound_to proven_at",
        identity=True,
    ),
    _kept(
        "refresh_tokens",
        "token_hash grant_id client_id parent_hash issued_at expires_at used_at successor generation"
        " again_at bound_to lost_at",
        identity=True,
    ),
    _kept(
        "devices",
        "device_hash user_code client_id endpoint scopes expires_at interval_s polled_at status grant_id",
        identity=True,
    ),
    _kept("revoked_tokens", "token_id expires_at", identity=True),
    _kept("assertions", "issuer assertion_id expires_at", identity=True),
    _kept("signing_keys", "kid state sealed created_at activated_at retired_at", identity=True),
    _kept(
        "connections",
        "user_id server issuer sealed scopes expires_at version connected_at refreshed_at leased_by"
        " leased_until",
        identity=True,
    ),
    _kept("registrations", "server issuer sealed", identity=True),
    _kept(
        "standing_answers",
        "id user_id client_id given_at expires_at sealed ended",
        identity=True,
    ),
)
"""In this order: the later ones name rows of the earlier."""

DATA_KEYS: Final = _kept("data_keys", "id wrapped kek_id created_at", identity=True)
"""Wrapped anew on the way, where another key-encryption key is in use there."""

WHOLE: Final = (*BEFORE_THE_FRONT, *IDENTITY, *STATE)
"""Those that are moved at once, after `GROWING`."""
