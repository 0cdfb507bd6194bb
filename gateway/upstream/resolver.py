"""Names to addresses, on threads of their own."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

_THREADS = 8


class Resolver(Protocol):
    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """Return the addresses of `name`, as text.

        Raises:
            OSError: It has none, or nobody could tell.

        """
        ...


class SystemResolver:
    """The operating system's `getaddrinfo`.

    It cannot be interrupted, and whoever names a host may also run its slow name server: on the
    threads that everything else shares, a few such names would hold up the whole gateway.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolver")

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """Return the addresses of `name`, each once, in the order of preference (RFC 6724).

        Raises:
            OSError: It has none, or nobody could tell.

        """
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self._threads, _look_up, name, port)
        return tuple(dict.fromkeys(answers))


def _look_up(name: str, port: int) -> list[str]:
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]
