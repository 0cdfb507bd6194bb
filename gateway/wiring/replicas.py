"""A gateway among others: what they share is in one PostgreSQL, and each has a folder of its own.

psycopg is an extra: what needs it is brought in where it is used.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from gateway.config import Config
from gateway.errors import ConfigError
from gateway.ports.secrets import Sealer
from gateway.storage.identity.store import IdentityStores
from gateway.storage.moving.mark import mark_in, require_serving
from gateway.storage.runs import RunLimits
from gateway.wiring.foundation import now
from gateway.wiring.redacting import held_by, levels_of
from gateway.wiring.stores import Beside, Stores

REPLICA = f"{socket.gethostname()}-{secrets.token_hex(3)}"
"""Names this process among those that share a database."""

Unlock = Callable[[IdentityStores], Sealer]


@asynccontextmanager
async def open_shared(config: Config, unlock: Unlock) -> AsyncIterator[Stores]:
    """Open what is shared, take the folder for this process, and go by the database's clock.

    Raises:
        ConfigError: The database cannot be used, or another process has the folder.

    """
    with installed():
        from gateway.storage.postgres.base import Setting  # noqa: PLC0415 - an extra
        from gateway.storage.postgres.clock import ServerClock, ask  # noqa: PLC0415 - an extra
        from gateway.storage.postgres.lane import Keeps  # noqa: PLC0415 - an extra
        from gateway.storage.postgres.sequencer import Pace  # noqa: PLC0415 - an extra
        from gateway.storage.postgres.stores import PostgresStores  # noqa: PLC0415 - an extra
    clock = ServerClock()
    setting = Setting(
        conninfo=address_of(config),
        replica=REPLICA,
        data_dir=config.data_dir,
        keeps=Keeps(config.storage.durability),
        deadline_s=config.audit.deadline,
        pace=Pace(sign=config.audit.checkpoints.every),
        levels=levels_of(config),
        held=tuple(held_by(config, os.environ)),
        runs=RunLimits(
            idle_s=config.runs.idle,
            most=config.runs.most,
            by_person=config.runs.of == "person",
        ),
        told=clock.told,
    )
    await asyncio.to_thread(ask, setting.conninfo, clock.told)
    with now.by(clock):
        stores = await PostgresStores.open(setting, unlock=unlock, clock=now)
        try:
            yield stores
        finally:
            await stores.close()


def beside_others(config: Config, unlock: Unlock) -> Beside:
    """Return what looks up what is shared.

    Raises:
        ConfigError: What that takes is not installed.

    """
    with installed():
        from gateway.storage.postgres.beside import PostgresBeside  # noqa: PLC0415 - an extra
    return PostgresBeside(address_of(config), unlock=unlock, clock=now)


def probe_storage(config: Config) -> Iterator[Mapping[str, str | bool]]:
    """Yield what there is to say of the database that is shared; of a folder only why it does not serve.

    Raises:
        ConfigError: What that takes is not installed.

    """
    if config.storage.kind == "sqlite":
        try:
            require_serving(mark_in(config.data_dir), str(config.data_dir))
        except ConfigError as error:
            yield {"text": error.public, "wrong": True}
        return
    with installed():
        from gateway.storage.postgres.checking import findings  # noqa: PLC0415 - an extra
    for one in findings(address_of(config)):
        yield {"text": one.text, "wrong": one.wrong}


def make_tables(config: Config, *, admit: str, keeps: bool) -> None:
    """Make what is not there of the tables, and let the role `admit` use them; see `made`.

    Raises:
        ConfigError: There is no PostgreSQL in the configuration, or it cannot be used.

    """
    if config.storage.kind != "postgres":
        raise ConfigError("storage.kind: `douane storage tables` is for `postgres`")
    with installed():
        from gateway.storage.postgres.base import made  # noqa: PLC0415 - an extra
    made(address_of(config), admit=admit, keeps=keeps)


def address_of(config: Config) -> str:
    """Return how the database is reached; it may hold a password.

    Raises:
        ConfigError: It is nowhere.

    """
    url = config.storage.url
    if url is None:
        raise ConfigError("storage.url: say by reference where PostgreSQL is")
    try:
        return url.resolve(os.environ).reveal()
    except ValueError as error:
        raise ConfigError(f"storage.url: {error}") from error


@contextmanager
def installed() -> Iterator[None]:
    """Say how what PostgreSQL takes is installed, where it is not."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            "nothing can be shared in PostgreSQL",
            problems=[
                "storage.kind: install what `postgres` takes: pip install 'douane[postgres]'"
            ],
        ) from error
