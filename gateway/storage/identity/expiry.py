"""What the identity database forgets, and when."""

from gateway.storage.identity.statements import Statements

GRANT_KEPT_S = 86_400
"""A grant stays for so long after its end: what it has revoked may outlive it by a token's life."""

_CAME_TO_NOTHING = """
DELETE FROM grants
WHERE id IN (SELECT grant_id FROM codes WHERE used_at IS NULL AND expires_at <= :now)
OR id IN (SELECT grant_id FROM devices WHERE status = 'approved' AND expires_at <= :now)
"""

_RULES = (
    _CAME_TO_NOTHING,
    # The chain of a grant goes with it.
    "DELETE FROM grants WHERE expires_at <= :now - :kept",
    # A used code is evidence of a replay only while it could have been redeemed at all.
    "DELETE FROM codes WHERE expires_at <= :now",
    "DELETE FROM refresh_tokens WHERE expires_at <= :now",
    "DELETE FROM devices WHERE expires_at <= :now",
    "DELETE FROM revoked_tokens WHERE expires_at <= :now",
    "DELETE FROM assertions WHERE expires_at <= :now",
    "DELETE FROM links WHERE expires_at <= :now",
    "DELETE FROM sessions WHERE expires_at <= :now",
    "DELETE FROM transactions WHERE expires_at <= :now",
)


def forget_expired(connection: Statements, *, now: float) -> int:
    """Delete what is past its time; return how many rows those were."""
    values = {"now": now, "kept": GRANT_KEPT_S}
    return sum(connection.execute(rule, values).rowcount for rule in _RULES)
