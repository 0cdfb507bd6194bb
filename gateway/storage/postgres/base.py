"""Everything that gateways share in one PostgreSQL, as one of them opens and closes it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from dataclasses import field
from pathlib import Path
from typing import Final, Self

import psycopg

from gateway.audit.record import RecordEncoder
from gateway.audit.record import Terms as Written
from gateway.audit.redaction import Levels
from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.flow.redaction import RecordScreen
from gateway.ports import Clock
from gateway.ports.secrets import Sealer
from gateway.storage.files import DirectoryLock, private_directory
from gateway.storage.identity.store import IdentityStores
from gateway.storage.keys import Keys
from gateway.storage.moving.mark import require_serving
from gateway.storage.postgres.allowance import PostgresAllowance
from gateway.storage.postgres.board import PostgresBoard
from gateway.storage.postgres.board_tables import BOARD
from gateway.storage.postgres.clock import Told, untold
from gateway.storage.postgres.connection import Session, connect, require_sessions
from gateway.storage.postgres.identity import open_identity
from gateway.storage.postgres.identity_tables import IDENTITY
from gateway.storage.postgres.keys import SharedKeys, SharedRecordKeys
from gateway.storage.postgres.lane import Keeps
from gateway.storage.postgres.lanes import Lanes
from gateway.storage.postgres.log_tables import LOG
from gateway.storage.postgres.log_views import PostgresLog
from gateway.storage.postgres.mark import mark_of, place_of
from gateway.storage.postgres.migrations import migrate, newer_than
from gateway.storage.postgres.moving_tables import MOVING
from gateway.storage.postgres.reading_tables import READING
from gateway.storage.postgres.rights_tables import EVERYBODY, RIGHTS, strangers
from gateway.storage.postgres.sequencer import Pace, Sequencer
from gateway.storage.postgres.state import SharedState
from gateway.storage.postgres.state_tables import STATE
from gateway.storage.runs import RunLimits

TABLES: Final = (IDENTITY, LOG, STATE, BOARD, READING, RIGHTS, MOVING)
"""In their order: the later ones go on from the earlier."""
_PATIENCE_S: Final = 5.0
_NEWER: Final = "the database is newer than this version of the gateway; use the newer version"

Unlock = Callable[[IdentityStores], Sealer]
"""Opens the vault whose wrapped keys stand in these stores."""


@value
class Setting:
    """Which database, and how one gateway uses it."""

    conninfo: str = field(repr=False)
    """It may hold a password."""
    replica: str
    """Names the gateway among the others."""
    data_dir: Path
    """What is only its own: caches, sockets, lock."""
    keeps: Keeps
    """What a record survives that was acknowledged."""
    deadline_s: float
    pace: Pace
    levels: Levels
    held: tuple[str, ...] = field(repr=False)
    """The operator's secrets, which no record may hold."""
    runs: RunLimits
    told: Told = untold
    """Is told again and again what time it is at the server."""


@value
class Secrets:
    """What the vault opened."""

    sealer: Sealer
    keys: Keys
    record_keys: SharedRecordKeys


def made(conninfo: str, *, admit: str = "", keeps: bool = False) -> None:
    """Make the tables, or bring them up to date.

    The role `admit` may be a gateway's user from then on, and remove records if it `keeps` the archive.

    Raises:
        ConfigError: The database cannot be used, is behind a pooler that lends sessions out, a newer version
            has written it, the role is none, or it could have functions of its own run as the owner.

    """
    try:
        require_sessions(conninfo)
        with closing(connect(conninfo, application="douane migrations")) as connection:
            if newer := newer_than(connection, *TABLES):
                raise ConfigError(_NEWER, problems=newer)
            if admit and (others := strangers(connection, EVERYBODY, admit)):
                raise ConfigError(f"{admit} is not admitted", problems=others)
            migrate(connection, *TABLES)
            if admit:
                connection.execute("CALL admit_runtime_1(%s)", (admit,))
            if keeps:
                connection.execute("CALL admit_keeper_1(%s)", (admit,))
    except psycopg.Error as error:
        raise ConfigError(f"PostgreSQL cannot be used: {str(error).strip()}") from error


_LACKS: Final = "SELECT NOT has_table_privilege(to_regclass('run_looks'), 'DELETE')"
_NOT_ADMITTED: Final = (
    "this version needs a right in the shared database that its user has not: whoever owns the tables "
    "runs `douane storage tables --admit USER` once more"
)


def joinable(conninfo: str) -> None:
    """Make the tables where they are not, and return if gateways may join those of the database.

    Raises:
        ConfigError: It cannot be used, or is an end of a move.

    """
    made(conninfo)
    try:
        with closing(connect(conninfo, application="douane migrations")) as connection:
            require_serving(mark_of(connection), place_of(connection))
            if connection.execute(_LACKS).fetchone() == (True,):
                raise ConfigError(_NOT_ADMITTED)
    except psycopg.Error as error:
        raise ConfigError(f"PostgreSQL cannot be used: {str(error).strip()}") from error


@value
class Base:
    """What stores stand on, opened in this order and closed in the other."""

    identity: IdentityStores
    secrets: Secrets
    log: PostgresLog
    session: Session
    """Of runs, and of whoever looks whether the database is there."""
    state: SharedState
    board: PostgresBoard
    allowance: PostgresAllowance
    sequencer: Sequencer
    lanes: Lanes
    encoder: RecordEncoder
    log_id: str

    @classmethod
    async def open(
        cls, setting: Setting, opened: AsyncExitStack, *, unlock: Unlock, clock: Clock
    ) -> Self:
        """Make what is not there, connect, and read the keys; `opened` is what ends it.

        Raises:
            ConfigError: The database cannot be used, or another process has the folder.

        """
        opened.callback(DirectoryLock(private_directory(setting.data_dir)).release)
        await asyncio.to_thread(joinable, setting.conninfo)
        identity = await asyncio.to_thread(open_identity, setting.conninfo, clock=clock)
        opened.callback(identity.close)
        secrets = await asyncio.to_thread(_unlocked, identity, unlock, clock)
        log = PostgresLog(setting.conninfo)
        opened.callback(log.close)
        log_id = await asyncio.to_thread(_log_id, log)
        session = Session(setting.conninfo, application="douane runs", patience_s=_PATIENCE_S)
        opened.callback(session.close)
        state = SharedState.open(setting.conninfo, deadline_s=setting.deadline_s, told=setting.told)
        opened.push_async_callback(state.close)
        board = PostgresBoard(setting.conninfo, replica=setting.replica, key=secrets.keys.hmac)
        opened.callback(board.close)
        await board.look()
        allowance = PostgresAllowance(setting.conninfo, replica=setting.replica)
        opened.callback(allowance.close)
        sequencer = Sequencer(
            setting.conninfo, setting.replica, key=secrets.keys.audit, pace=setting.pace
        )
        lanes = Lanes(
            setting.conninfo,
            replica=setting.replica,
            deadline_s=setting.deadline_s,
            keeps=setting.keeps,
        )
        await lanes.open()
        sequencer.start()
        opened.push_async_callback(asyncio.to_thread, sequencer.close)
        opened.push_async_callback(lanes.close)
        screen = RecordScreen(setting.held)
        terms = Written(keys=secrets.record_keys.all, levels=setting.levels, screen=screen)
        return cls(
            identity=identity,
            secrets=secrets,
            log=log,
            session=session,
            state=state,
            board=board,
            allowance=allowance,
            sequencer=sequencer,
            lanes=lanes,
            encoder=RecordEncoder(log_id=log_id, terms=terms),
            log_id=log_id,
        )


def _unlocked(identity: IdentityStores, unlock: Unlock, clock: Clock) -> Secrets:
    sealer = unlock(identity)
    shared = SharedKeys(identity.database, sealer, clock=clock)
    return Secrets(sealer=sealer, keys=shared.keys(), record_keys=shared.record_keys())


def _log_id(log: PostgresLog) -> str:
    with closing(log.reader()) as reader:
        return reader.log_id
