"""Who is to be told at once that a program was ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.domain.scripts import ScriptId


class ScriptWatch:
    """Calls whoever runs a program when somebody ends it. Of one event loop."""

    def __init__(self) -> None:
        self._ended: dict[ScriptId, Callable[[], object]] = {}

    @contextmanager
    def of(self, id_: ScriptId, ended: Callable[[], object]) -> Iterator[None]:
        """Have `ended` called for as long as the context lasts."""
        self._ended[id_] = ended
        try:
            yield
        finally:
            del self._ended[id_]

    def tell(self, id_: ScriptId) -> None:
        """Say that a program was ended."""
        ended = self._ended.get(id_)
        if ended is not None:
            ended()
