"""The tests' own listener: whoever connects in its last turn is closed as well."""

import asyncio
import gc
import socket
import warnings

from tests.listening import listening


async def test_nothing_is_left_open_whenever_somebody_connects() -> None:
    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for turns in range(8):
            async with listening(waits) as port:
                clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
                for _ in range(turns):
                    await asyncio.sleep(0)
            for client in clients:
                client.close()
        gc.collect()
    assert [str(warning.message) for warning in told] == []
