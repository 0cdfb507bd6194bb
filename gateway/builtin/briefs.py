"""Brief and whole descriptions of tools, and the words of the tool-descriptions extension (pure)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, unquote

from gateway.builtin.offers import Offer
from gateway.domain.bounded import digest_of, remembered
from gateway.domain.descriptions import NO_GUIDANCE, Guidance
from gateway.errors import BadCommand
from gateway.wire import jsontext
from gateway.wire.operations import TOOL_DESCRIPTIONS, TOOL_DETAILS, is_descriptions

LONGEST_BRIEF: Final = 96
"""Bytes of UTF-8: what a list costs goes by them. Scripts that need more say more with a character."""
_LONGEST_READ: Final = 4_000
"""Characters of a description in which its first sentence is looked for."""
MOST_SELECTED: Final = 20
MOST_NAMED: Final = 200
"""Names in an error; whoever may use more tools finds them with search_tools."""
TITLE: Final = "Tool Descriptions - Required for tool use"

_MOST_TEXTS: Final = 20_000
_OCTETS: Final = 16 * 1024**2
_SENTENCE: Final = re.compile(
    r".*?(?:[.!?](?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?=\s|$)|[\u3002\uff01\uff1f])|.*",
    re.DOTALL,
)
"""The first one; ideographic full stops end one without a space after them."""
_CUT: Final = "\N{HORIZONTAL ELLIPSIS}"
_ANYTHING: Final = {"type": "object", "additionalProperties": True}
_OF_A_SERVER: Final = re.compile(r"douane://[^/]*/")
_TOLD: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""Members of a definition that say how a tool is called and what it answers."""
_MEMBER: Final = "tools"


RULES: Final = (
    "Required before tools are used. "
    "1. Choose a tool by its brief description in the list of tools. "
    f"2. Read {TOOL_DESCRIPTIONS}?tools=NAME with its name, such as "
    f"{TOOL_DESCRIPTIONS}?tools=server__tool ; of several at once: ?tools=server__tool,server__other . "
    "3. Call the tool as its whole description says. "
    "The list says WHICH tool to use; this resource says HOW: parameters, results, examples. "
    "You CANNOT call a tool until its description has been fetched: the call fails with "
    "TOOL_DESCRIPTION_REQUIRED. "
    f"Reading {TOOL_DESCRIPTIONS} without ?tools= describes nothing and fails with "
    "MISSING_TOOL_SELECTION. "
    "Whole descriptions are long: so you read those of the tools that you use, and no others. "
    f"If you cannot read resources, {TOOL_DETAILS} does the same."
)
"""What a model has to know of the extension."""
RESOURCE: Final[Mapping[str, Any]] = {
    "uri": TOOL_DESCRIPTIONS,
    "name": TITLE,
    "description": RULES,
    "mimeType": "application/json",
}
TEMPLATE: Final[Mapping[str, Any]] = {
    "uriTemplate": f"{TOOL_DESCRIPTIONS}{{?{_MEMBER}}}",
    "name": TITLE,
    "description": "Whole descriptions of the tools that are named, with commas between them.",
    "mimeType": "application/json",
}
"""RFC 6570."""


def brief_text(definition: Mapping[str, Any], guidance: Guidance = NO_GUIDANCE) -> str:
    """Return what says which tool this is: the operator's words, else the first sentence of its own.

    A full stop at its end is left out.
    """
    if guidance.brief:
        return guidance.brief
    described = definition.get("description") or definition.get("title")
    words = " ".join(described[:_LONGEST_READ].split()) if isinstance(described, str) else ""
    found = _SENTENCE.match(words)
    sentence = found.group().rstrip(".\u3002") if found else ""
    octets = sentence.encode(errors="surrogatepass")
    if len(octets) <= LONGEST_BRIEF:
        return sentence
    # One too many, so that a word that ends just there stays.
    kept = octets[: LONGEST_BRIEF - len(_CUT.encode()) + 1].decode(errors="ignore")
    head, space, _ = kept.rpartition(" ")
    return f"{head if space else kept[:-1]}{_CUT}"


def brief_definition(
    definition: Mapping[str, Any], name: str, guidance: Guidance = NO_GUIDANCE
) -> Mapping[str, Any]:
    """Return the brief form of a tool that is called `name` here: which it is, and not how it is called.

    What its annotations say of its behaviour stays: hosts ask their users by it.
    """
    brief: dict[str, Any] = {
        "name": name,
        "description": brief_text(definition, guidance),
        "inputSchema": _ANYTHING,
    }
    annotations = definition.get("annotations")
    if isinstance(annotations, dict) and (kept := annotations.keys() - {"title"}):
        brief["annotations"] = {hint: annotations[hint] for hint in annotations if hint in kept}
    return brief


def _by_digests(offer: Offer, brief: str = "") -> bytes:
    definition = str(offer.definition.digest)
    return digest_of(offer.id, offer.profile, offer.name, definition, offer.text, brief)


def _weight(offer: Offer) -> int:
    return len(offer.text)


@remembered(most=_MOST_TEXTS, octets=_OCTETS, key=_by_digests, weigh=_weight)
def briefly(offer: Offer, brief: str = "") -> Offer:
    """Return `offer` as it is listed briefly; `brief` is the operator's text, if there is one."""
    content = offer.definition.content
    text = jsontext.write(brief_definition(content, offer.name, Guidance(brief=brief)))
    return replace(offer, text=text)


def whole_description(
    definition: Mapping[str, Any], digest: str, guidance: Guidance = NO_GUIDANCE
) -> Mapping[str, Any]:
    """Return all that is to be known of a tool before it is called.

    Nothing that its server adds to a definition can pass for the operator's words beside it.
    """
    told = {member: definition[member] for member in _TOLD if member in definition}
    return {**told, **({"definition_hash": digest} if digest else {}), **guidance.content}


def is_another(public: object) -> bool:
    """Whether a server's own resource or template, by its public URI, is called like ours."""
    if not isinstance(public, str):
        return False
    own_spelling = _OF_A_SERVER.sub("", public)
    return is_descriptions(unquote(own_spelling).partition("{")[0].lower())


def uri_of(names: Sequence[str]) -> str:
    """Return the URI at which these tools are described."""
    return f"{TOOL_DESCRIPTIONS}?{_MEMBER}={','.join(quote(name, safe='') for name in names)}"


def selected(uri: str) -> tuple[str, ...]:
    """Return the names of the tools that `uri` asks for, each once; none, if it names none.

    Every `tools` counts, with commas between names, which are trimmed and percent-decoded
    (RFC 3986 section 2.1).

    Raises:
        BadCommand: There are more than `MOST_SELECTED`.

    """
    query = uri.partition("?")[2].partition("#")[0]
    names: dict[str, None] = {}
    for part in query.split("&"):
        member, _, text = part.partition("=")
        if unquote(member) == _MEMBER:
            names |= dict.fromkeys(name.strip() for name in unquote(text).split(","))
    names.pop("", None)
    if len(names) > MOST_SELECTED:
        raise BadCommand(f"at most {MOST_SELECTED} tools are described at once")
    return tuple(names)


def required(name: str) -> Mapping[str, Any]:
    """Return what is said to a call of a tool whose description was not read."""
    uri = uri_of([name])
    return {
        "error": {
            "code": "TOOL_DESCRIPTION_REQUIRED",
            "message": f"The description of '{name}' has to be read before it is called. "
            "Nothing was called.",
            "instructions": [
                f"1. Read {uri}, or ask {TOOL_DETAILS} for {name}.",
                "2. Look at its inputSchema, and at the guidance beside it.",
                f"3. Call {name} again, with arguments that fit.",
            ],
            "resource_uri": uri,
        }
    }


def not_selected(code: str, message: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Return what is said to a read that selects no tools, or too many."""
    return {
        "error": {
            "code": code,
            "message": message,
            "examples": [
                uri_of(names[:1] or ["server__tool"]),
                uri_of(names[:2] or ["server__tool", "server__other"]),
            ],
            "available_tools": list(names[:MOST_NAMED]),
        }
    }


def not_found(name: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Return what stands in place of a description of what nobody may know of, or is not there."""
    return {
        "error": f"Tool '{name}' not found",
        "available_tools": list(names[:MOST_NAMED]),
    }
