"""Registering servers beside `douane.yaml`, and taking them up at once.

In a file of one gateway's, or at all that share a database.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway.config import Config, load
from gateway.config.registered import (
    place_of_registered,
    read_registered,
    servers_in,
    tree_of,
    with_server,
    without_server,
)
from gateway.domain.roster import Roster
from gateway.errors import BadCommand, ConfigError, EgressRefused, NotFound
from gateway.storage.files import write_atomically
from gateway.wiring.reading import require_same_process
from gateway.wiring.upstreams import bounds_of

TakeUp = Callable[[], Awaitable[None]]
"""Puts what the files say in force.

Raises:
    ConfigError: It cannot be used, and what was in force stays.

"""

_NOWHERE = "start the gateway first: with `storage.kind: postgres` servers are registered at all that run, or at none"

Agree = Callable[[str, str], Awaitable[None]]
"""Has every gateway have the second text registered, in the place of the first; raises as `TakeUp`."""


class _Registry:
    """What either `ServerRegistry` does: the configuration with the change is tried before it is made."""

    def __init__(
        self,
        current: Callable[[], Config],
        *,
        environ: Mapping[str, str] | None,
        take_up: TakeUp,
    ) -> None:
        """With `environ`, the secrets that a server refers to must be there."""
        self._current = current
        self._environ = environ
        self._take_up = take_up
        self._one_by_one = asyncio.Lock()

    @property
    def names(self) -> frozenset[str]:
        """The servers that are registered."""
        tree = tree_of(self._kept(), self._path, self._file.parent)
        return frozenset(servers_in(tree.content))

    async def add(self, name: str, settings: Mapping[str, Any]) -> None:
        """Register a server, and put it in force.

        Raises:
            BadCommand: There is one of this name, or it would not be a valid configuration.
            ConfigError: What the files say cannot be put in force.

        """
        await asyncio.shield(asyncio.create_task(self._add(name, settings)))

    async def _add(self, name: str, settings: Mapping[str, Any]) -> None:
        # To its end, also if whoever asked goes away: halfway, the file says what is not in force.
        async with self._one_by_one:
            if self._is_written(name) or name in self.names:
                raise BadCommand(f"there is a server {name} already")
            before = await asyncio.to_thread(self._kept)
            await self._replace(before, with_server(before, self._path, name, settings), new=name)

    async def remove(self, name: str) -> None:
        """Let a registered server go. Its pins stay, for a server at the same address.

        Raises:
            NotFound: No server of this name is registered.
            ConfigError: What the files say cannot be put in force.

        """
        await asyncio.shield(asyncio.create_task(self._remove(name)))

    async def _remove(self, name: str) -> None:
        async with self._one_by_one:
            if name not in self.names:
                where = " registered; it is in douane.yaml" if self._is_written(name) else ""
                raise NotFound(f"no server {name} is{where or ' registered'}")
            before = await asyncio.to_thread(self._kept)
            await self._replace(before, without_server(before, self._path, name))

    async def _replace(self, before: str | None, after: str, *, new: str = "") -> None:
        try:
            config = load(self._file, self._environ, registered=after)
        except ConfigError as error:
            raise BadCommand("; ".join(error.problems) or error.public) from error
        if new:
            _admit(config, new)
        await self._make(before, after, config)

    def _kept(self) -> str | None:
        """Return what is registered, as `servers.yaml` has it."""
        raise NotImplementedError

    async def _make(self, before: str | None, after: str, config: Config) -> None:
        """Have `after` be registered, with which `config` would be in force."""
        raise NotImplementedError

    def _is_written(self, name: str) -> bool:
        return name in self._current().servers

    @property
    def _file(self) -> Path:
        return self._current().file

    @property
    def _path(self) -> Path:
        return place_of_registered({"data_dir": str(self._current().data_dir)}, Path())


class Registration(_Registry):
    """Of one gateway, which keeps it in a file."""

    def _kept(self) -> str | None:
        return read_registered(self._path)

    async def _make(self, before: str | None, after: str, config: Config) -> None:  # noqa: ARG002 - the files are read again
        in_force = self._current()
        if await asyncio.to_thread(self._kept) != before:
            raise BadCommand("the registered servers have changed meanwhile; look, and try again")
        await self._write(after)
        try:
            await self._take_up()
        except BaseException:
            await self._take_back(before, after)
            if self._current() is not in_force:
                # Another reload has put in force meanwhile what is taken back here.
                with suppress(ConfigError):
                    await self._take_up()
            raise

    async def _take_back(self, before: str | None, after: str) -> None:
        """Have the file say what it did, unless somebody has saved something else since: that is theirs."""
        if await asyncio.to_thread(self._kept) == after:
            await self._write('{"servers": {}}\n' if before is None else before)

    async def _write(self, text: str) -> None:
        try:
            await asyncio.to_thread(write_atomically, self._path, text.encode())
        except OSError as error:
            raise ConfigError(
                f"the registered servers cannot be written: {error.strerror}",
                problems=[f"{self._path}:1: cannot be written"],
            ) from error


class SharedRegistration(_Registry):
    """Of all gateways that share a database: a change is in force at each that lives, or at none."""

    def __init__(
        self,
        current: Callable[[], Config],
        *,
        environ: Mapping[str, str] | None,
        take_up: TakeUp,
        roster: Roster,
        agree: Agree,
    ) -> None:
        """`agree` has every gateway take a text in the place of another one."""
        super().__init__(current, environ=environ, take_up=take_up)
        self._roster = roster
        self._agree = agree

    def _kept(self) -> str:
        return self._roster.text

    async def _make(self, before: str | None, after: str, config: Config) -> None:
        require_same_process(self._current(), config)
        await self._agree(before or "", self._roster.following(after))
        await self._take_up()


def tried(text: str, current: Callable[[], Config], environ: Mapping[str, str], file: Path) -> None:
    """Return if servers that another gateway registers could be in force here, too.

    Raises:
        ConfigError: They could not.

    """
    config = load(file, environ, registered=text)
    require_same_process(current(), config)
    for name in config.registered:
        try:
            _admit(config, name)
        except BadCommand as error:
            raise ConfigError(error.public) from error


class Nowhere:
    """A `ServerRegistry` of gateways that share a database, while none runs here: none could say if it takes it up."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    async def add(self, name: str, settings: Mapping[str, Any]) -> None:  # noqa: ARG002 - whatever it is
        """Refuse.

        Raises:
            BadCommand: Always.

        """
        raise BadCommand(_NOWHERE)

    async def remove(self, name: str) -> None:  # noqa: ARG002 - whichever it is
        """Refuse; raises as `add`."""
        raise BadCommand(_NOWHERE)


async def nothing_to_take_up() -> None:
    """Leave it to the gateway that is started next."""


def _admit(config: Config, name: str) -> None:
    """Refuse a server at an address that none may be at; a name is judged at each connection.

    Raises:
        BadCommand: It is at one.

    """
    bounds, url = bounds_of(name, config), config.servers[name].url
    try:
        if bounds is not None and url is not None:
            bounds.admit(str(url))
    except EgressRefused as error:
        raise BadCommand(
            f"servers.{name}.url: {error.detail}; an operator lists it there, or writes the "
            "server into douane.yaml"
        ) from error
