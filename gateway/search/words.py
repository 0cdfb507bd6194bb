"""Text as terms: identifiers split, stop words left out, words reduced to stems."""

import re
import sqlite3
from collections.abc import Iterable

import orjson

from gateway.errors import ConfigError

_MOST_KNOWN = 50_000
"""Stems remembered at once; queries are anybody's text and must not fill the memory."""
_LONGEST_KNOWN = 100
"""Characters: of longer words, which callers make up, the stem is not remembered."""
_WORD = re.compile(r"[^\W_]+")
_LOWER_UPPER = re.compile(r"([a-z0-9])([A-Z])")
_ACRONYM = re.compile(r"([A-Z])([A-Z][a-z])")
_TAKE = "INSERT INTO words (rowid, word) SELECT key, value FROM json_each(?)"
_STEMS = (
    "SELECT json_group_array(json_array(doc, term))"
    " FROM (SELECT doc, term FROM stems ORDER BY doc, offset DESC)"
)
"""By each word's place; of one that is several to the tokenizer the first comes last."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{2,}")
"""Japanese and Chinese, which write no spaces."""


def word_set(words: str) -> frozenset[str]:
    """Return words that were written down one after the other."""
    return frozenset(words.split())


# What grammar and politeness need in any request, whatever it is about.
STOP_WORDS = word_set("""
    a about above after again against all also am an and any anything are as at be because been
    before being below between both but by can cannot could couldn curious d did didn do does doesn
    doing don down during each everything few for from further get give had has hasn have having he
    hello help her here hers hey hi him his how i if in interested into is isn it its just know let
    like ll looking m me more most my myself need needed no nor not of off on once only or other our
    out over own please re s same she should so some something such t tell than thank thanks that
    the their them then there these they this those through to too try trying under until up us use
    using ve very want wanted was we were what when where which while who whom why will with won
    wonder wondering would wouldn you your yours yourself
""")


def spaced(identifier: str) -> str:
    """Return `camelCase`, `snake_case` and `dotted.names` as words."""
    split = _ACRONYM.sub(r"\1 \2", _LOWER_UPPER.sub(r"\1 \2", identifier))
    return " ".join(_WORD.findall(split))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; unspaced scripts as pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(spaced(text).lower()):
        if _UNSPACED.search(word):
            found += [word[at : at + 2] for at in range(len(word) - 1)]
        else:
            found.append(word)
    return found


def telling(words: list[str]) -> list[str]:
    """Return the words that say something; all of them where none would be left."""
    return [word for word in words if word not in STOP_WORDS] or words


class Stems:
    """Stems of words as SQLite's FTS5 makes them: Porter's, after folding case and diacritics.

    FTS5's own `bm25()` is not used: it counts over the whole table, so that tools which the caller
    may not see would move what the caller gets. One thread at a time.
    """

    def __init__(self) -> None:
        """Prepare the tokenizer.

        Raises:
            ConfigError: This Python's SQLite was built without FTS5.

        """
        self._known: dict[str, str] = {}
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            self._database.execute(
                "CREATE VIRTUAL TABLE words USING"
                " fts5(word, content = '', tokenize = 'porter unicode61 remove_diacritics 2')"
            )
            self._database.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(words, 'instance')")
        except sqlite3.OperationalError as error:
            self._database.close()
            raise ConfigError(f"search needs SQLite with FTS5: {error}") from error

    def of(self, words: Iterable[str]) -> list[str]:
        """Return the stem of each word, in order."""
        asked = list(words)
        wanted = dict.fromkeys(asked)
        if len(self._known) + len(wanted) > _MOST_KNOWN:
            self._known = {}
        missing = [word for word in wanted if word not in self._known]
        learned = self._learned(missing) if missing else {}
        self._known |= {w: stem for w, stem in learned.items() if len(w) <= _LONGEST_KNOWN}
        return [learned[word] if word in learned else self._known[word] for word in asked]

    def _learned(self, missing: list[str]) -> dict[str, str]:
        # In two statements, however many words: between any two another thread may go on first.
        self._database.execute("BEGIN")
        try:
            self._database.execute(_TAKE, (orjson.dumps(missing).decode(),))
            stems: list[tuple[int, str]] = orjson.loads(
                self._database.execute(_STEMS).fetchone()[0]
            )
        finally:
            self._database.execute("ROLLBACK")
        found = dict(stems)
        return {word: found.get(place, word) for place, word in enumerate(missing)}

    def close(self) -> None:
        """Let the tokenizer go."""
        self._database.close()
