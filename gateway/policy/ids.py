"""Names for decisions."""

import itertools
import secrets

_PROCESS = secrets.token_hex(8)
_COUNT = itertools.count()


def new_decision_id() -> str:
    """Return `d_`, 64 bits of this process and a counter: unique, and not a secret.

    Fresh randomness for every decision would cost a system call each.
    """
    return f"d_{_PROCESS}{next(_COUNT):012x}"
