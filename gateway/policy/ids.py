"""Names for decisions."""

import secrets


def new_decision_id() -> str:
    """Return `d_` and 128 random bits."""
    return f"d_{secrets.token_hex(16)}"
