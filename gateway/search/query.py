"""What a request asks for: the whole of it, its parts, and the files it names (pure)."""

import re
from collections.abc import Iterator, Sequence

from gateway.domain._value import value
from gateway.search.words import telling, word_set, words_of

LONGEST_QUERY = 4_000
"""Characters that are looked at."""
_MOST_PARTS = 8
_LONGEST_WORD = 80
"""A longer run without a space is data, such as a picture in Base64."""
_LEAST_WORDS = 2
_LONGEST_EXTENSION = 5
_BEFORE = 14
"""Words before a file's name that can say what is to happen to it."""
_PART = re.compile(
    r"(?<=[.!?;]) | (?:and then|and also|after that|as well as|and|then|also) |, (?:and |then )?",
    re.IGNORECASE,
)
_QUOTES = "\"'`()[]<>,;:!?\u2018\u2019\u201c\u201d\u3002\uff0c"

_KINDS = {
    "doc": "word document",
    "docx": "word document",
    "xls": "excel spreadsheet",
    "xlsx": "excel spreadsheet",
    "ppt": "powerpoint presentation",
    "pptx": "powerpoint presentation",
    "pdf": "pdf document",
    "csv": "csv data",
    "md": "markdown",
    "htm": "html",
    "png": "image",
    "jpg": "image",
    "jpeg": "image",
    "gif": "image",
    "svg": "image",
    "webp": "image",
    "wav": "audio",
    "mp3": "audio",
    "flac": "audio",
    "mp4": "video",
    "mov": "video",
    "zip": "archive",
    "tar": "archive",
    "gz": "archive",
}
"""What people call a file by its extension; others are called by the extension itself."""
_OWN_PROGRAM = frozenset(
    {"word", "excel", "powerpoint", "pdf", "image", "audio", "video", "archive"}
)
"""First words of kinds that general tools for text files cannot make or read."""
_WRITING = word_set("""
    save saved saves saving write writes written writing store stored export exported output create
    created creates generate generated make draft produce produced put download downloaded convert
    converted report append
""")
_READING = word_set("""
    read reads reading open load loaded parse analyze analyse look get check find located under from
    extract compare summarize inspect view show list import upload
""")


@value
class Query:
    """A request, ready to be compared with tools."""

    text: str
    """The request; names of files are replaced by what kind of file they are."""
    parts: tuple[str, ...]
    """Its sentences and clauses; none if there is only one."""
    steps: tuple[str, ...]
    """What has to be done to files that it names, in the words of tools."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that is compared."""
        return (self.text, *self.parts, *self.steps)


def understand(request: str) -> Query:
    """Take a request apart, without guessing beyond what it says."""
    tokens = request[:LONGEST_QUERY].split()
    kept: list[str] = []
    steps: list[str] = []
    for place, token in enumerate(tokens):
        bare = _bare(token)
        if _is_path(bare):
            kept.append(token.replace(bare, _called(bare)))
            steps.append(_step(bare, tokens[max(0, place - _BEFORE) : place]))
        elif len(token) < _LONGEST_WORD:
            kept.append(token)
    text = " ".join(kept)
    return Query(
        text=text,
        parts=tuple(dict.fromkeys(_parts(text)))[:_MOST_PARTS],
        steps=tuple(dict.fromkeys(steps))[:_MOST_PARTS],
    )


def _bare(token: str) -> str:
    """Return a word without what stands around it; a dot may begin a path, but ends none."""
    return token.strip(_QUOTES).rstrip(_QUOTES + ".")


def _is_path(token: str) -> bool:
    rooted = token.startswith(("/", "~/", "./", "../")) or token[1:3] in (":\\", ":/")
    return rooted and any(map(str.isalnum, token))


def _kind(path: str) -> str:
    """Return what the file is called, or nothing for a directory."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    _, dot, extension = name.rpartition(".")
    if not dot or not 1 <= len(extension) <= _LONGEST_EXTENSION or not extension.isalnum():
        return ""
    return _KINDS.get(extension.lower(), extension.lower())


def _called(path: str) -> str:
    kind = _kind(path)
    return f"{kind} file" if kind else "folder"


def _step(path: str, before: Sequence[str]) -> str:
    kind = _kind(path)
    if not kind:
        return "list files in directory"
    file = f"{kind} file" if kind.split()[0] in _OWN_PROGRAM else "file"
    return f"write {file}" if _is_written(before) else f"read {file}"


def _is_written(before: Sequence[str]) -> bool:
    """Whether the last word that says what happens to a file says that it is made."""
    for token in reversed(before):
        word = _bare(token).lower()
        if word in _WRITING:
            return True
        if word in _READING:
            return False
    return False


def _parts(text: str) -> Iterator[str]:
    found = [part.strip(" ,.") for part in _PART.split(text)]
    telling_parts = [part for part in found if len(_content(part)) >= _LEAST_WORDS]
    if len(telling_parts) > 1:
        yield from telling_parts


def _content(part: str) -> list[str]:
    words = words_of(part)
    found = telling(words)
    return [] if found is words else found
