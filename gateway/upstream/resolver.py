"""Names to addresses, on threads of their own."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, Protocol
from weakref import WeakValueDictionary

_AT_ONCE: Final = 2
"""Names that are looked up at once on the word of one who names hosts."""


class Resolver(Protocol):
    async def __call__(self, name: str, port: int, who: str = "") -> Sequence[str]:
        """Return the addresses of `name`, as text; `who` named it, or nobody but itself.

        Raises:
            OSError: It has none, or nobody could tell.

        """
        ...


class SystemResolver:
    """The operating system's `getaddrinfo`.

    It cannot be interrupted, and whoever names a host may also run its slow name server: each has
    threads of their own, and waits for no one's but theirs. Of one event loop.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[Sequence[str]]] = {}
        """By name: of many who ask for one, one looks it up."""
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def __call__(self, name: str, port: int, who: str = "") -> Sequence[str]:
        """Return the addresses of `name`, each once, in the order of preference (RFC 6724).

        Raises:
            OSError: It has none, or nobody could tell.

        """
        with suppress(ValueError):
            return (str(ip_address(name)),)
        turn = self._turns.setdefault(who or name, asyncio.Semaphore(_AT_ONCE))
        while name not in self._under_way:
            await turn.acquire()
            if name in self._under_way:
                turn.release()
            else:
                self._begin(name, port, turn)
        # Whoever gives up takes the answer from nobody, and leaves the thread its turn.
        return await asyncio.shield(self._under_way[name])

    def _begin(self, name: str, port: int, turn: asyncio.Semaphore) -> None:
        def ended(done: asyncio.Future[Sequence[str]]) -> None:
            del self._under_way[name]
            turn.release()
            done.exception()  # looked at, also if nobody waits for it any more

        thread = ThreadPoolExecutor(1, thread_name_prefix="resolver")
        try:
            looking = asyncio.get_running_loop().run_in_executor(thread, _look_up, name, port)
        except RuntimeError as error:
            turn.release()
            raise OSError("there is no thread to look it up") from error
        finally:
            thread.shutdown(wait=False)  # once it is done
        self._under_way[name] = looking
        looking.add_done_callback(ended)


def _look_up(name: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))
