"""Calls against the schemas that were approved with their tools."""

from collections import OrderedDict

from gateway.domain.calls import Message
from gateway.domain.tools import Pinned
from gateway.errors import Denied
from gateway.pins.schemas import SchemaCheck, UnusableSchema

_MOST_KEPT = 2048


class Schemas:
    """Approved input schemas, made ready when they are first needed."""

    def __init__(self) -> None:
        self._ready: OrderedDict[str, SchemaCheck] = OrderedDict()

    def require_arguments(self, pinned: Pinned, message: Message) -> None:
        """Return if the arguments are what the approved definition says they may be.

        Raises:
            Denied: They are not; the reasons name places and words of the schema, no values.

        """
        schema = pinned.manifest.definition.content.get("inputSchema")
        if schema is None:
            return
        try:
            check = self._check(str(pinned.manifest.digest), schema)
        except UnusableSchema as error:
            raise Denied(
                "the tool's approved definition has a schema by which nothing can be checked",
                detail=str(error),
            ) from error
        arguments = message.params.get("arguments") or {}
        if problems := check.problems(arguments, len(message.body)):
            raise Denied(
                "the arguments are not what the tool's approved definition says",
                reasons=[("invalid_arguments", str(problem)) for problem in problems],
            )

    def _check(self, digest: str, schema: object) -> SchemaCheck:
        found = self._ready.get(digest)
        if found is None:
            found = self._ready[digest] = SchemaCheck(schema)
            if len(self._ready) > _MOST_KEPT:
                self._ready.popitem(last=False)
        else:
            self._ready.move_to_end(digest)
        return found
