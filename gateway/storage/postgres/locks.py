"""Advisory locks: what the first of their two numbers means. Nothing else may use these."""

from enum import IntEnum


class Lock(IntEnum):
    """Classes of locks. PostgreSQL knows no names for them, and one number may not mean two things."""

    MIGRATE = 0x0D0A00
    """Who makes tables."""

    LANE = 0x0D0A01
    """Of each lane: whoever has it appends on it, until the connection is gone."""
    OWNER = 0x0D0A02
    """Of each owner of runs: raises share it, and whoever begins, lowers or ends one has it alone."""
    LEAD = 0x0D0A03
    """Who orders the log."""
    FOLLOW = 0x0D0A06
    """Who follows the log."""
    KEEP = 0x0D0A07
    """Who archives records, or removes them."""
    COUNT = 0x0D0A08
    """Of each count of a quota: whoever adds to it."""
    MOVE = 0x0D0A09
    """Who moves all that is in a database, or all into it."""
