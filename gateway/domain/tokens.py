"""How much of a model's window a text takes: estimates, for no tokenizer is everybody's.

Of the JSON of tools a token is 4.0 to 4.6 bytes in the tokenizers that can be had, 2.3 in the worst
single definition, and fewer in scripts other than the Latin one.
"""

import math
from typing import Final

_USUAL_BYTES: Final = 4
_FEW_BYTES: Final = 3


def tokens_of(octets: int) -> int:
    """Return the usual number of tokens of so many bytes of UTF-8, to show to people."""
    return math.ceil(octets / _USUAL_BYTES)


def most_tokens_of(octets: int) -> int:
    """Return a number of tokens that so many bytes of UTF-8 rarely exceed, to compare with a limit."""
    return math.ceil(octets / _FEW_BYTES)
