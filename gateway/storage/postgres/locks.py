"""Advisory locks: what the first of their two numbers means. Nothing else may use these."""

from enum import IntEnum


class Lock(IntEnum):
    """Classes of locks. PostgreSQL knows no names for them, and one number may not mean two things."""

    MIGRATE = 0x0D0A00
    """Who makes tables."""
