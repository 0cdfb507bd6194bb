"""The words of records' reasons in a filter: `reasons match "private data"`."""

from collections.abc import Sequence

REASONS = "words.reasons"
"""The table of words that the SQL names. Its one column is `words`, its `rowid` the leaf index.

Whoever has several such tables puts each in its place, one after the other.
"""


def in_index(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return SQLite's SQL, 0 or 1, of whether a record has all of these words, and its parameters.

    `priv*` is every word that begins so. It searches the table of words.
    """
    wanted = " ".join(
        '"' + word.removesuffix("*").replace('"', '""') + '"' + "*" * word.endswith("*")
        for word in words
    )
    return f"(leaf_index IN (SELECT rowid FROM {REASONS} WHERE words MATCH ?))", [wanted]  # noqa: S608 - fixed text


def in_record(words: Sequence[str]) -> tuple[str, list[str]]:
    """Do the same by the record itself: where the table has not come to it yet."""
    plain = [word.removesuffix("*").lower() for word in words]
    each = "instr(lower(json_extract(body, '$.reasons')), ?) > 0"
    return f"ifnull({' AND '.join([each] * len(plain))}, 0)", plain
