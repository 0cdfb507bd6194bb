"""What the result of an MCP request says: its leaves, and which of them are identifiers."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.domain.document import DEEPEST, is_plain_name
from gateway.domain.nodes import require_small
from gateway.domain.paths import Path, parse_path, selected
from gateway.domain.rewriting import is_media, octets_in
from gateway.flow.decoding import from_base64
from gateway.flow.forms import is_iban
from gateway.flow.words import singular, words_of


def text_of(leaf: Any) -> str | None:
    """Return a string or a number as the text it is compared by; `None` for anything else.

    An id is the same id as `7` and as `"7"`.
    """
    if isinstance(leaf, str):
        return leaf
    if isinstance(leaf, int | float) and not isinstance(leaf, bool):
        return str(leaf)
    return None


def texts_of(content: Any) -> Iterator[str]:
    """Yield every string and number in `content`, as text, and names that are data, as `leaves` does."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            for name, member in reversed(node.items()):
                waiting += (member,) if is_plain_name(name) else (member, name)
        elif isinstance(node, list):
            waiting += reversed(node)
        elif (text := node if isinstance(node, str) else text_of(node)) is not None:
            yield text


def said_in(content: Any) -> Iterator[str]:
    """Yield every string and number in `content`, as text, and every member's name."""
    yield from texts_of(content)
    for members in _all_objects(content):
        yield from members


def documents(result: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what `result` consists of: structured content, and each text, parsed if it is JSON.

    That is so for the results of `tools/call`, `resources/read` and `prompts/get`.
    """
    if result.get("structuredContent") is not None:
        yield result["structuredContent"]
    for block in _blocks(result):
        text = _text_in(block)
        if isinstance(text, str):
            yield _parsed(text)
        if isinstance(block.get("uri"), str):
            yield block["uri"]


_NOT_BESIDE = frozenset({"structuredContent", "requestState"})
"""Members of a result that are one of its documents, or that nobody but the gateway reads."""
_WORDS = frozenset({"type", "role", "mimeType", "resultType", "method", "level"})
"""Members that hold a word of the protocol's own."""
_WORD = re.compile(r"[a-z_]{1,32}(?:/[A-Za-z_]{1,32}|/[a-z0-9.+-]{1,80})?")


def besides(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield every text of `result` that stands in none of its `documents`, also one in a blob.

    So it is of whatever else a server says: what a link is called, completions, the params of a
    notification. Pictures, sounds and words of the protocol's own are left out.
    """
    blocks = [*_blocks(result)]
    told = [said for one in blocks for said in (_text_in(one), one.get("uri"))]
    documented = frozenset(said for said in told if isinstance(said, str))
    waiting: list[Any] = [{n: held for n, held in result.items() if n not in _NOT_BESIDE}]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            for name, member in node.items():
                is_blob = name == "blob" and isinstance(member, str)
                if is_blob and (text := from_base64(member)):
                    yield from texts_of(_parsed(text))
                elif not _is_silent(name, member, node):
                    waiting += (member,) if is_plain_name(name) else (member, name)
        elif isinstance(node, list):
            waiting += node
        elif (text := text_of(node)) and text not in documented:
            yield text


def _is_silent(name: str, member: Any, node: Mapping[str, Any]) -> bool:
    if name in _WORDS:
        return isinstance(member, str) and _WORD.fullmatch(member) is not None
    if name == "blob":
        return isinstance(member, str) and octets_in(member) is not None
    return name == "data" and is_media(node)


def _text_in(block: Mapping[str, Any]) -> Any:
    resource = block.get("resource")
    return (resource if isinstance(resource, dict) else block).get("text")


def _blocks(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    messages = result.get("messages")
    spoken = [m.get("content") for m in _objects(messages)]
    for blocks in (result.get("content"), result.get("contents"), *spoken):
        yield from _objects(blocks if isinstance(blocks, list) else [blocks])


def _objects(items: Any) -> Iterator[dict[str, Any]]:
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        require_small(text.encode("utf-8", "surrogatepass"), DEEPEST)
        return orjson.loads(text)
    except ValueError:
        return text  # to be read as what it is, also where it would be too much to be read as JSON


def identifiers(document: Any, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the strings and numbers of `document` that one of `patterns` selects.

    Raises:
        ValueError: A pattern is none; the configuration refuses such before.

    """
    for pattern in patterns:
        for container, key in selected(document, _path(pattern)):
            text = text_of(container[key])
            if text is not None:
                yield text


_ID_KEY = re.compile(
    r"(?:^|[_-])(?:[Ii]ds?|ID|[Uu]uid|[Gg]uid|[Kk]ey|[Nn]umber|[Cc]ode|[Rr]ef|[Ss]ku|[Ss]lug|sha|[Cc]ommit|[Hh]ash|[Dd]igest|[Ss]erial"
    r"|[Ii]sbn|ISBN|[Gg]tin|GTIN|[Ee]an|EAN|[Uu]pc|UPC|[Bb]arcode)_?$"
    r"|[a-z](?:Id|ID|Number|Code|Ref)s?$"
)
_OF_SOMEBODY = re.compile(
    r"(?i)phone|mobile|fax|card|account|iban|tax|api|access|secret|private|zip|post"
    r"|(?:^|[_-])(?:source|sender|from|to|caller|callee|recipient|whatsapp|signal|sms|tel)_?numbers?$"
    r"|(?-i:[a-z](?:Source|Sender|From|Caller|Callee|Recipient|Whatsapp|Sms)Numbers?)$|originatingnumber"
)
"""What makes of a number or a key one that somebody brings along, and that reaches them anywhere."""
_PHONE = re.compile(
    r"(?:\w{1,16}:)?(?:\+[0-9]|00[1-9][0-9]{0,2}[ \u00a0()./-])[0-9 \u00a0()./-]{5,24}(?:@[\w.-]{1,64})?"
)
"""A number that reaches somebody from anywhere (ITU-T E.164), whatever its member is called."""
_CODE = re.compile(r"#?(?=[^\s]*\d)[\w.#:/-]{2,64}")
"""What looks as only a machine gives it out."""


def named_ids(document: Any) -> Iterator[str]:
    """Yield what the server itself gave its things for names.

    That is what stands in a member that is called so, a list of nothing but codes, and the codes by
    which an object's members, objects themselves, are called.
    """
    for members in _all_objects(document):
        for name, member in members.items():
            listed = isinstance(member, list)
            if is_called_an_id(name) and not _OF_SOMEBODY.search(name):
                for leaf in member if listed else (member,):
                    text = text_of(leaf)
                    if text is not None and not _reaches_somebody(text):
                        yield text
            elif listed and member and all(_is_code(leaf) for leaf in member):
                yield from (leaf for leaf in member if not _reaches_somebody(leaf))
            elif isinstance(member, dict) and _is_code(name) and not _reaches_somebody(name):
                yield name


def _reaches_somebody(text: str) -> bool:
    """Tell whether `text` is a phone's or a bank account's number: no server gave that its thing."""
    return _PHONE.fullmatch(text) is not None or is_iban(text)


_TITLES = frozenset(
    """
    name title subject label display nickname patient customer client employee contact owner user guest
    sender from product item device room zone service host account
    """.split()  # noqa: SIM905 - a table of words
)
"""Last words of members that say what a record is called, or whose it is."""
_LONGEST_TITLE = 80
_MOST_RECORDS = 1024


def titled(document: Any) -> Iterator[tuple[str, str]]:
    """Yield each id that an object of `document` bears, with what the thing is called that it stands for.

    An object is called by all of its titles. The ids of other things in it (`room_id`) are called by
    what is told of these (`room`, `room_name`).
    """
    for place, members in islice(_all_places(document), _MOST_RECORDS):
        told = {name: text for name, held in members.items() if (text := text_of(held)) is not None}
        ids = {name: text for name, text in told.items() if is_called_an_id(name)}
        if ids:
            yield from _titled(ids, {n: t for n, t in told.items() if _is_title(n, t)}, place)


def _titled(
    ids: Mapping[str, str], titles: Mapping[str, str], place: str
) -> Iterator[tuple[str, str]]:
    own = _own_of([*ids], place)
    for name, one in ids.items():
        for called, title in titles.items():
            if name in own or _of_whom(name) in (_words(called), _of_whom(called)):
                yield one, title


def _own_of(ids: Sequence[str], place: str) -> Collection[str]:
    """Return which of an object's `ids` are its own: those of nothing else, or of what stands at `place`.

    Where neither is there, those of one thing alone are; of several things none is known to be.
    """
    own = [name for name in ids if not _of_whom(name)]
    its = own or [name for name in ids if _of_whom(name) == _words(place)]
    return its or (ids if len({*map(_of_whom, ids)}) == 1 else ())


def _words(name: str) -> tuple[str, ...]:
    return tuple(map(singular, words_of(name)))


def _of_whom(name: str) -> tuple[str, ...]:
    """Return of what a member of this name tells, if it says so: "room" of `roomId`."""
    return _words(name)[:-1]


def _is_title(name: str, text: str) -> bool:
    return len(text) <= _LONGEST_TITLE and singular((words_of(name) or ("",))[-1]) in _TITLES


def is_called_an_id(name: str) -> bool:
    """Tell whether a member of this name holds what identifies something."""
    return _ID_KEY.search(name) is not None


def _is_code(leaf: Any) -> bool:
    return isinstance(leaf, str) and _CODE.fullmatch(leaf) is not None


def _all_objects(document: Any) -> Iterator[dict[str, Any]]:
    return (members for _, members in _all_places(document))


def _all_places(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object in `document`, with the name of the member that it or its list stands in."""
    waiting = [("", document)]
    while waiting:
        name, found = waiting.pop()
        if isinstance(found, dict):
            yield name, found
            waiting.extend(found.items())
        elif isinstance(found, list):
            waiting.extend((name, item) for item in found)


@value
class Record:
    """One thing that a result tells of: an item of a list, or the whole."""

    whole: bool
    texts: tuple[str, ...]
    """Its strings and numbers."""
    names: tuple[str, ...]
    """Of its members, which may be addresses too."""
    begins: frozenset[str] = frozenset()
    """How its texts begin: a word each, in lower case."""


def records(document: Any) -> Iterator[Record]:
    """Yield the items of the first list of objects in `document`, and `document` as a whole.

    What says nothing is no item.
    """
    items = (_record(item, whole=False) for item in _items(document))
    yield from (item for item in items if item.texts)
    yield _record(document, whole=True)


def _record(document: Any, *, whole: bool) -> Record:
    names = tuple(name for members in _all_objects(document) for name in members)
    texts = tuple(texts_of(document))
    firsts = (_BEGINNING.search(text) for text in texts)
    begins = frozenset(first[0].casefold() for first in firsts if first is not None)
    return Record(whole=whole, texts=texts, names=names, begins=begins)


_BEGINNING = re.compile(r"\w+")


def _items(document: Any) -> list[Any]:
    lists = [document, *(document.values() if isinstance(document, dict) else ())]
    for found in lists:
        if isinstance(found, list) and found and all(isinstance(item, dict) for item in found):
            return found
    return []


@lru_cache(maxsize=1024)
def _path(pattern: str) -> Path:
    return parse_path(pattern)
