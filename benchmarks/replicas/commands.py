"""What people do at gateways, without a command line in between: at whichever of them takes it."""

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_PATIENCE_S = 6.0
_TOGETHER_S = 90.0
_AGAIN_S = 0.1


class NotDone(Exception):
    """It was refused, or it is not known whether it was done."""

    code = ""
    """Of the refusal, if it was one."""


class Refused(NotDone):
    """The gateway has said no."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


async def ask(socket: Path, command: str, **arguments: Any) -> Any:
    """Have the gateway at `socket` obey, and return what it says.

    Raises:
        NotDone: It does not say that it has.

    """
    writer = None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_unix_connection(socket, limit=1 << 25)
            writer.write(json.dumps({"command": command, "arguments": arguments}).encode() + b"\n")
            answer = json.loads(await reader.readline())
    except (OSError, ValueError, TimeoutError) as error:
        raise NotDone(repr(error)) from error
    finally:
        if writer is not None:
            writer.transport.abort()
    if not answer["ok"]:
        raise Refused(answer["code"], answer["message"])
    return answer["result"]


async def done(
    sockets: Sequence[Path], command: str, *, settled: Collection[str] = (), **arguments: Any
) -> Any:
    """Have one of the gateways at `sockets` obey, each in turn until one says that it has.

    Refusals of the codes `settled` are not tried again: the first try was heard, or never will be.

    Raises:
        NotDone: None does.

    """
    why = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(_TOGETHER_S):
            while True:
                for socket in sockets:
                    try:
                        return await ask(socket, command, **arguments)
                    except NotDone as error:
                        if error.code in settled:
                            raise
                        why = str(error)
                await asyncio.sleep(_AGAIN_S)
    raise NotDone(why)
