"""A program's call that its server answers with a task: the gateway waits, and the program for it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.domain.calls import Reply
from gateway.domain.room import outlasting
from gateway.ports.sandbox import ToolRefused
from gateway.wire.operations import TASKS_CANCEL, TASKS_GET
from gateway.wire.replies import REFUSAL_KEY
from gateway.wire.server_message import ServerMessage
from gateway.wire.tasks import TASK, TASK_ID, Status

Ask = Callable[[str, str], Awaitable[tuple[Reply, ServerMessage]]]
"""Sends a request about a task by its method and handle, as the call's author."""

_SHORTEST_S: Final = 0.05
_LONGEST_S: Final = 60.0


class LateCalls:
    """Waits for what is late; what nobody waits for any more is cancelled."""

    def __init__(self) -> None:
        self._leaving: set[asyncio.Future[Any]] = set()

    async def settled(self, begun: Mapping[str, Any], ask: Ask) -> tuple[Reply, ServerMessage]:
        """Return the answer of a call that was answered with the task `begun`.

        It takes as long as the program has: whoever runs that ends the waiting.

        Raises:
            ToolRefused: The task has no result: it failed, was cancelled, wants to ask somebody
                something, or nobody is told of it any more.

        """
        handle = str(begun.get(TASK_ID, ""))
        try:
            return await self._settled(begun, handle, ask)
        except BaseException:
            # Also where the program's time is over: its server need not go on.
            leaving = asyncio.ensure_future(ask(TASKS_CANCEL, handle))
            outlasting(leaving)
            self._leaving.add(leaving)
            leaving.add_done_callback(self._left)
            raise

    async def _settled(
        self, begun: Mapping[str, Any], handle: str, ask: Ask
    ) -> tuple[Reply, ServerMessage]:
        told: Mapping[str, Any] = begun
        while True:
            await asyncio.sleep(_pause_s(told))
            reply, message = await ask(TASKS_GET, handle)
            if message.error is not None:
                return reply, message
            told = message.result or {}
            match told.get("status"):
                case Status.WORKING.value:
                    continue
                case Status.COMPLETED.value:
                    return _answer(reply, message, told.get("result"))
                case Status.FAILED.value:
                    error = told.get("error")
                    text = error.get("message") if isinstance(error, dict) else ""
                    raise ToolRefused("failed", str(text), reached=True)
                case Status.INPUT_REQUIRED.value:
                    raise ToolRefused(
                        "input_required",
                        "this tool wants to ask its user something; call it directly, not in a program",
                        reached=True,
                    )
                case _:
                    raise ToolRefused("failed", "the task was cancelled", reached=True)

    def _left(self, leaving: asyncio.Future[Any]) -> None:
        self._leaving.discard(leaving)
        if not leaving.cancelled():
            leaving.exception()  # which nobody waits for


def is_late(result: Mapping[str, Any]) -> bool:
    """Whether a result says that the answer comes later."""
    return result.get("resultType") == TASK


def _answer(reply: Reply, message: ServerMessage, result: Any) -> tuple[Reply, ServerMessage]:
    """Return the result in a task as if it had come at once; of one that is withheld our refusal."""
    inner = result if isinstance(result, dict) else {}
    meta = inner.get("_meta")
    refusal = meta.get(REFUSAL_KEY) if isinstance(meta, dict) else None
    if isinstance(refusal, dict):
        texts = [str(one.get("text", "")) for one in inner.get("content", ())]
        raise ToolRefused(str(refusal.get("code", "denied")), "\n".join(texts), reached=True)
    content = {**message.content, "result": inner}
    return reply, ServerMessage(form=message.form, method="", id=message.id, content=content)


def _pause_s(told: Mapping[str, Any]) -> float:
    poll = told.get("pollIntervalMs")
    wanted = poll / 1000 if isinstance(poll, int | float) else _SHORTEST_S
    return min(max(wanted, _SHORTEST_S), _LONGEST_S)
