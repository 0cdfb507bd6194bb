"""Calls and results against the schemas that were approved with their tools."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from gateway.domain.bounded import ByIdentity
from gateway.domain.calls import Message
from gateway.domain.document import DEEPEST, Document
from gateway.domain.nodes import most_nodes, require_small
from gateway.domain.paths import parse_path
from gateway.domain.tools import Pinned, Target
from gateway.errors import Denied, InvalidArguments, UpstreamFailed
from gateway.flow.schemas import identifier_fields
from gateway.pins.members import Members, astray
from gateway.pins.schemas import SchemaCheck, UnusableSchema
from gateway.turns import QUICK_NODES
from gateway.wire.rounds import REQUESTS, STATE

CHECKING: Final = QUICK_NODES + 1
"""A schema may take long to be checked by, for a small message too."""
_MOST_KEPT: Final = 4096
_OCTETS: Final = 32 * 1024**2
_READY: Final = 8
"""How many times its text's bytes a definition takes that was made ready."""
_ASKING: Final = frozenset({"resultType", REQUESTS, STATE, "_meta"})
"""All members of a result that is none yet."""


class Approved:
    """One approved definition, each part of it made ready when it is first needed."""

    def __init__(self, definition: Document) -> None:
        self._definition, text = definition.content, definition.text
        self.nodes = CHECKING if '"pattern' in text else most_nodes(len(text))
        """How much work it is to make it ready: a pattern may be much, however short it is."""
        self.promises = self._definition.get("outputSchema") is not None
        """Whether it says what its results are."""
        self.is_ready = False
        """Whether each part of it was made ready: until then, to use it may take long."""

    def make_ready(self) -> None:
        """Make each part ready that can be; of a schema by which nothing can be checked it is told by use."""
        _ = self.arguments, self.of_prompt, self.structured, self.typed
        with suppress(Denied):
            # What a value can meet is counted when something is checked first.
            _ = [check.fits(None, 0) for check in (self.input, self.output) if check is not None]
            self.is_ready = True

    @cached_property
    def arguments(self) -> Members:
        """The names of its arguments."""
        return Members(self._definition.get("inputSchema"))

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The arguments of a tool at the top, by their names."""
        schema = self._definition.get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return tuple(properties) if isinstance(properties, dict) else ()

    @cached_property
    def of_prompt(self) -> tuple[str, ...]:
        """The names of a prompt's arguments; a tool has them in its schema."""
        listed = self._definition.get("arguments")
        named = listed if isinstance(listed, list) else ()
        return tuple(
            one["name"]
            for one in named
            if isinstance(one, dict) and isinstance(one.get("name"), str)
        )

    @cached_property
    def structured(self) -> Members:
        """The names in its structured content."""
        return Members(self._definition.get("outputSchema"))

    @cached_property
    def typed(self) -> tuple[str, ...]:
        """Where the results of a tool hold identifiers."""
        return identifier_fields(self._definition.get("outputSchema"))

    @cached_property
    def input(self) -> SchemaCheck | None:
        """What arguments are checked by; nothing, if it promises nothing of them.

        Raises:
            Denied: Nothing can be checked by it.

        """
        return self._check("inputSchema")

    @cached_property
    def output(self) -> SchemaCheck | None:
        """What structured content is checked by; as `input`."""
        return self._check("outputSchema")

    def _check(self, member: str) -> SchemaCheck | None:
        schema = self._definition.get(member)
        if schema is None:
            return None
        try:
            return SchemaCheck(schema)
        except UnusableSchema as error:
            raise Denied(
                "the tool's approved definition has a schema by which nothing can be checked",
                detail=f"{member}: {error}",
            ) from error


class Schemas:
    """Approved definitions, made ready when they are first needed."""

    def __init__(self, *, refuse_results: bool = False) -> None:
        """`refuse_results`: whether a result that is not as approved is withheld; if not, it is
        given out as one that nobody vouches for.
        """
        self._ready: ByIdentity[Approved] = ByIdentity(most=_MOST_KEPT, octets=_OCTETS)
        self._refuse_results = refuse_results

    def of(self, pinned: Pinned) -> Approved:
        """Return the approved definition, ready to be used."""
        definition = pinned.manifest.definition
        found = self._ready.get(definition)
        if found is None:
            found = Approved(definition)
            self._ready.put(found, definition, octets=_READY * len(definition.text))
        return found

    def fits(self, approved: Approved, message: Message) -> bool:
        """Whether the arguments are as approved, told at once; if not, `require_arguments` may take long."""
        if not approved.is_ready:
            return False
        check = approved.input
        arguments = message.params.get("arguments") or {}
        return check is None or check.fits(arguments, len(message.body))

    def require_arguments(self, approved: Approved, message: Message) -> None:
        """Return if the arguments are what the approved definition says they may be.

        Raises:
            InvalidArguments: They are not; the reasons name places and words of the schema, no values.
            Denied: The schema is one by which nothing can be checked.

        """
        check = approved.input
        if check is None:
            return
        problems = check.problems(message.params.get("arguments") or {}, len(message.body))
        if problems:
            raise InvalidArguments(
                "the arguments are not what the tool's approved definition says",
                reasons=[("invalid_arguments", str(problem)) for problem in problems],
            )

    def require_plain_arguments(
        self, approved: Approved, message: Message, labelled: Iterable[str]
    ) -> None:
        """Return if no argument could be taken for another one that is approved or `labelled`.

        Raises:
            InvalidArguments: One could; its name is not repeated.

        """
        known, arguments = approved.arguments, given_arguments(message.params)
        if known.confused(arguments, (*labelled, *approved.of_prompt)) is not None:
            raise InvalidArguments(
                "an argument is easily confused with another one",
                reasons=[("invalid_arguments", "$: has a name that looks like another one's")],
            )

    def require_plain_result(
        self, approved: Approved, result: Mapping[str, Any], typed: Iterable[str]
    ) -> None:
        """Return if no member of the structured content could be taken for another one.

        Raises:
            UpstreamFailed: One could: policy and client would read two results.

        """
        content = result.get("structuredContent")
        if content is None:
            return
        confused = approved.structured.confused(content)
        for path in typed:
            confused = confused or astray(content, parse_path(path))
        if confused is not None:
            raise UpstreamFailed(
                "The server sent a malformed message",
                detail="a member of the structured content is easily confused with another one",
            )

    def result_fits(self, approved: Approved, result: Mapping[str, Any], size: int) -> bool:
        """Whether structured content is as promised, told at once; if not, `result_problems` may take long."""
        check = approved.output if approved.is_ready else None
        return check is not None and check.fits(result.get("structuredContent"), size)

    def result_problems(
        self, approved: Approved, result: Mapping[str, Any], typed: Iterable[str], size: int
    ) -> tuple[str, ...]:
        """Return why a tool's result is not what its approved definition promises.

        `size` is the length in bytes of the message that it came in; `typed` is where it holds identifiers.

        Raises:
            UpstreamFailed: As `require_plain_result`.
            Denied: It is not, and such results are refused; or nothing can be checked by its schema.

        """
        self.require_plain_result(approved, result, typed)
        if result.get("isError") is True:
            return ()
        problems = (*_unlike_schema(approved, result, size), *_contradictions(result))
        if problems and self._refuse_results:
            raise Denied(
                "the result is not what the tool's approved definition says",
                reasons=[("invalid_result", problem) for problem in problems],
            )
        return problems


def _unlike_schema(approved: Approved, result: Mapping[str, Any], size: int) -> tuple[str, ...]:
    if not approved.promises or _only_asks(result):
        return ()
    if "structuredContent" not in result:
        return ("$.structuredContent: is promised and missing",)
    check = approved.output
    return (
        () if check is None else tuple(map(str, check.problems(result["structuredContent"], size)))
    )


def _only_asks(result: Mapping[str, Any]) -> bool:
    """Whether `result` asks something, and holds nothing that could be taken for an answer."""
    return REQUESTS in result and result.keys() <= _ASKING


def given_arguments(params: Mapping[str, Any]) -> Any:
    """Return the arguments that a call gives; of a completion those that it has got so far."""
    context = params.get("context")
    given = context.get("arguments") if isinstance(context, dict) else None
    return params.get("arguments") or given or {}


def _contradictions(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a text repeats the structured content, and says something else.

    A host shows the model one of the two (MCP 2026-07-28, structured content); a policy that reads
    the other would judge what nobody sees.
    """
    structured, blocks = result.get("structuredContent"), result.get("content")
    if structured is None or not isinstance(blocks, list):
        return
    for index, block in enumerate(blocks):
        text = block.get("text") if isinstance(block, dict) else None
        if not isinstance(text, str) or text.lstrip()[:1] not in ("{", "["):
            continue
        if not _is_small(text):
            yield f"$.content[{index}].text: is too much to be compared with the structured content"
            continue
        try:
            repeated = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if repeated not in (structured, _only_member(structured)):
            yield f"$.content[{index}].text: is not what the structured content says"


def _is_small(text: str) -> bool:
    try:
        require_small(text.encode("utf-8", "surrogatepass"), DEEPEST)
    except ValueError:
        return False
    return True


def _only_member(structured: Any) -> Any:
    """Return what stands alone in an object: servers wrap a list so, and print it unwrapped."""
    if isinstance(structured, dict) and len(structured) == 1:
        return next(iter(structured.values()))
    return structured


def turns_of(target: Target) -> str:
    """Return whose turns are taken to make a definition ready: not a caller's, who may call often at once."""
    return f"what {target.server} promises"
