"""Calls and results against the schemas that were approved with their tools."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gateway.domain.bounded import Bounded
from gateway.domain.calls import Message
from gateway.domain.document import DEEPEST
from gateway.domain.nodes import require_small
from gateway.domain.paths import parse_path
from gateway.domain.tools import Pinned
from gateway.errors import Denied, InvalidArguments, UpstreamFailed
from gateway.flow.schemas import identifier_fields
from gateway.pins.members import Members, astray
from gateway.pins.schemas import Problem, SchemaCheck, UnusableSchema

_MOST_KEPT: Final = 4096
_OCTETS: Final = 32 * 1024**2
_READY: Final = 8
"""How many times its text's bytes a definition takes that was made ready."""


class Schemas:
    """Approved schemas, made ready when they are first needed."""

    def __init__(self, *, refuse_results: bool = False) -> None:
        """`refuse_results`: whether a result that is not as approved is withheld; if not, it is
        given out as one that nobody vouches for.
        """
        self._ready: Bounded[tuple[str, str], SchemaCheck] = Bounded(
            most=_MOST_KEPT, octets=_OCTETS
        )
        self._typed: Bounded[str, tuple[str, ...]] = Bounded(most=_MOST_KEPT, octets=_OCTETS)
        self._named: Bounded[tuple[str, str], Members] = Bounded(most=_MOST_KEPT, octets=_OCTETS)
        self._refuse_results = refuse_results

    def require_arguments(self, pinned: Pinned, message: Message) -> None:
        """Return if the arguments are what the approved definition says they may be.

        Raises:
            InvalidArguments: They are not; the reasons name places and words of the schema, no values.
            Denied: The schema is one by which nothing can be checked.

        """
        arguments = message.params.get("arguments") or {}
        problems = self._problems(pinned, "inputSchema", arguments, len(message.body))
        if problems:
            raise InvalidArguments(
                "the arguments are not what the tool's approved definition says",
                reasons=[("invalid_arguments", str(problem)) for problem in problems],
            )

    def require_plain_arguments(
        self, pinned: Pinned, message: Message, labelled: Iterable[str]
    ) -> None:
        """Return if no argument could be taken for another one that is approved or `labelled`.

        Raises:
            InvalidArguments: One could; its name is not repeated.

        """
        known = self._members(pinned, "inputSchema")
        arguments = given_arguments(message.params)
        if known.confused(arguments, (*labelled, *_of_prompt(pinned))) is not None:
            raise InvalidArguments(
                "an argument is easily confused with another one",
                reasons=[("invalid_arguments", "$: has a name that looks like another one's")],
            )

    def require_plain_result(
        self, pinned: Pinned, result: Mapping[str, Any], typed: Iterable[str]
    ) -> None:
        """Return if no member of the structured content could be taken for another one.

        Raises:
            UpstreamFailed: One could: policy and client would read two results.

        """
        content = result.get("structuredContent")
        confused = self._members(pinned, "outputSchema").confused(content)
        for path in typed:
            confused = confused or astray(content, parse_path(path))
        if confused is not None:
            raise UpstreamFailed(
                "The server sent a malformed message",
                detail="a member of the structured content is easily confused with another one",
            )

    def result_problems(
        self, pinned: Pinned, result: Mapping[str, Any], size: int
    ) -> tuple[str, ...]:
        """Return why a tool's result is not what its approved definition promises.

        `size` is the length in bytes of the message that it came in.

        Raises:
            Denied: It is not, and such results are refused.

        """
        if result.get("isError") is True:
            return ()
        problems = (*self._unlike_schema(pinned, result, size), *_contradictions(result))
        if problems and self._refuse_results:
            raise Denied(
                "the result is not what the tool's approved definition says",
                reasons=[("invalid_result", problem) for problem in problems],
            )
        return problems

    def _unlike_schema(
        self, pinned: Pinned, result: Mapping[str, Any], size: int
    ) -> tuple[str, ...]:
        if pinned.manifest.definition.content.get("outputSchema") is None:
            return ()
        if "structuredContent" not in result:
            return ("$.structuredContent: is promised and missing",)
        content = result["structuredContent"]
        return tuple(map(str, self._problems(pinned, "outputSchema", content, size)))

    def typed(self, pinned: Pinned) -> tuple[str, ...]:
        """Return where the results of a tool hold identifiers, by its approved definition."""
        digest = str(pinned.manifest.digest)
        found = self._typed.get(digest)
        if found is None:
            schema = pinned.manifest.definition.content.get("outputSchema")
            found = identifier_fields(schema)
            self._typed.put(digest, found, len(pinned.manifest.definition.text))
        return found

    def _problems(
        self, pinned: Pinned, member: str, content: Any, size: int
    ) -> tuple[Problem, ...]:
        schema = pinned.manifest.definition.content.get(member)
        if schema is None:
            return ()
        try:
            check = self._check(pinned, member, schema)
        except UnusableSchema as error:
            raise Denied(
                "the tool's approved definition has a schema by which nothing can be checked",
                detail=f"{member}: {error}",
            ) from error
        return check.problems(content, size)

    def _members(self, pinned: Pinned, member: str) -> Members:
        key = str(pinned.manifest.digest), member
        found = self._named.get(key)
        if found is None:
            found = Members(pinned.manifest.definition.content.get(member))
            self._named.put(key, found, _READY * len(pinned.manifest.definition.text))
        return found

    def _check(self, pinned: Pinned, member: str, schema: object) -> SchemaCheck:
        key = str(pinned.manifest.digest), member
        found = self._ready.get(key)
        if found is None:
            found = SchemaCheck(schema)
            self._ready.put(key, found, _READY * len(pinned.manifest.definition.text))
        return found


def given_arguments(params: Mapping[str, Any]) -> Any:
    """Return the arguments that a call gives; of a completion those that it has got so far."""
    context = params.get("context")
    given = context.get("arguments") if isinstance(context, dict) else None
    return params.get("arguments") or given or {}


def _of_prompt(pinned: Pinned) -> Iterator[str]:
    """Yield the names of a prompt's arguments; a tool has them in its schema."""
    listed = pinned.manifest.definition.content.get("arguments")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            yield one["name"]


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
