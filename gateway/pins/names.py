"""When two names look like one to a person or to a model."""

import unicodedata

_LOOKALIKES = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s"})
_SEPARATORS = str.maketrans("", "", "_-. /")


def folded(name: str) -> str:
    """Return what is left of `name` when case, width, separators and lookalikes are ignored.

    Names with the same folding must not stand beside each other: a definition that was approved
    under the one could be shadowed by the other.
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    return plain.translate(_SEPARATORS).translate(_LOOKALIKES).replace("rn", "m")
