"""What moves all that a gateway keeps: from its folder into PostgreSQL, and back."""

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from gateway.config import Config
from gateway.config.storage import Storage
from gateway.domain.secrets import DataKey
from gateway.errors import ConfigError, GatewayError
from gateway.storage.files import DirectoryLock
from gateway.storage.kek import KekFile
from gateway.storage.moving.files import FilesSource, FilesTarget
from gateway.storage.moving.mark import mark_in
from gateway.storage.moving.marking import forget_mark, reopened
from gateway.storage.moving.move import Found, Move, Terms, Unlocked
from gateway.vault import KeyEncryptionKey, Vault
from gateway.web.door import person_of
from gateway.wiring.administration import open_admin
from gateway.wiring.foundation import now
from gateway.wiring.identity import operators_keys
from gateway.wiring.replicas import address_of, installed

Tell = Callable[[str, int, int], None]


def moved_in(config: Config, data_dir: Path, *, dry: bool, tell: Tell) -> Mapping[str, Any]:
    """Move what is in a folder to the PostgreSQL that `config` names; return what that is.

    `dry` only looks whether it can be. That it was moved is on record where it goes on.

    Raises:
        ConfigError: It cannot be, and nothing is in force there; or it was, and is not on record.

    """
    _need_postgres(config)
    with installed():
        from gateway.storage.postgres.moving import PostgresTarget  # noqa: PLC0415 - an extra
    with (
        closing(FilesSource.open(data_dir)) as source,
        closing(PostgresTarget.open(address_of(config))) as target,
    ):
        move = Move(source, target, terms_of(_keks(config, data_dir), tell))
        row = _told(move.looked() if dry else move.made(), source.place, target.place, dry=dry)
    if not dry:
        _on_record(config, "storage.migrate", "moved", f"from {row['from']} to {row['to']}")
    return row


def moved_back(config: Config, data_dir: Path, *, dry: bool, tell: Tell) -> Mapping[str, Any]:
    """Move what is in the PostgreSQL that `config` names to a folder that is not there; see `moved_in`.

    Raises:
        ConfigError: As there.

    """
    _need_postgres(config)
    with installed():
        from gateway.storage.postgres.moving import PostgresSource  # noqa: PLC0415 - an extra
    with (
        closing(PostgresSource.open(address_of(config))) as source,
        closing(FilesTarget(data_dir.absolute())) as target,
    ):
        move = Move(source, target, terms_of(_keks(config, None), tell))
        row = _told(move.looked() if dry else move.made(), source.place, target.place, dry=dry)
    if not dry:
        there = config.model_copy(update={"storage": Storage(), "data_dir": data_dir.absolute()})
        _on_record(there, "storage.migrate", "moved", f"from {row['from']} to {row['to']}")
    return row


def reopen_storage(config: Config) -> Mapping[str, Any]:
    """Have what `config` names serve again, which was moved; return where it had gone.

    That is on record there.

    Raises:
        ConfigError: It was not moved, what is there is not whole, or somebody has it just now; or it
            serves, and that is not on record.

    """
    if config.storage.kind == "sqlite":
        place = str(config.data_dir)
        reopened(mark_in(config.data_dir), place)  # before anything is made in a folder
        # Whoever moves it has it, and so has a gateway whose database it went to.
        with ExitStack() as held:
            held.callback(DirectoryLock(config.data_dir).release)
            moved = reopened(mark_in(config.data_dir), place)
            forget_mark(config.data_dir)
    else:
        with installed():
            from gateway.storage.postgres import moving  # noqa: PLC0415 - an extra
        moved, place = moving.reopen(address_of(config))
    _on_record(config, "storage.reopen", "reopened", f"{place}, which had gone to {moved.other}")
    return {"serves": place, "had_gone_to": moved.other, "log": moved.log_id}


def _on_record(config: Config, method: str, code: str, what: str) -> None:
    """Record what was done, in the log that `config` opens: none of a moved log takes a record before.

    Raises:
        ConfigError: It could not be recorded.

    """

    async def record() -> None:
        async with open_admin(config) as admin:
            person = person_of(os.getuid(), config.data_dir, admin.people)
            await admin.people.did(person, method, code, what)

    try:
        asyncio.run(record())
    except GatewayError as error:
        raise ConfigError(
            f"it is {code} ({what}), and that is not on record: {error.public}",
            problems=[error.detail] if error.detail else (),
        ) from error


class _Wrapped:
    """A `DataKeyStore` of keys that are on their way: what is changed is in no place yet."""

    def __init__(self, keys: Sequence[DataKey]) -> None:
        self.keys = {key.id: key for key in keys}

    def data_keys(self) -> Sequence[DataKey]:
        return sorted(self.keys.values(), key=lambda key: (-key.created_at, key.id))

    def add_data_key(self, key: DataKey) -> None:
        self.keys[key.id] = key

    def rewrap(self, keys: Sequence[DataKey]) -> None:
        self.keys = {key.id: key for key in keys}


def terms_of(keks: Sequence[KeyEncryptionKey], tell: Tell) -> Terms:
    """Return how a move is made whose data keys one of `keks` wraps; from then on the first one does."""

    def unlock(keys: Sequence[DataKey]) -> Unlocked:
        if not keys:
            raise ConfigError("there is no data key: no gateway has ever been ready there")
        store = _Wrapped(keys)
        # At the beginning of time no key is old: whoever serves makes the next one.
        vault = Vault.unlock(store, keks, random=os.urandom, clock=lambda: 0.0)
        if vault.kek.id != keks[0].id:
            vault.rewrap(keks[0])
        return Unlocked(sealer=vault, data_keys=tuple(sorted(store.keys.values(), key=_by_id)))

    return Terms(unlock=unlock, tell=tell, clock=now, new_id=lambda: secrets.token_hex(8))


def _keks(config: Config, data_dir: Path | None) -> Sequence[KeyEncryptionKey]:
    kek, former = operators_keys(config)
    texts = () if data_dir is None else KekFile(data_dir).found()
    return [kek, *(KeyEncryptionKey.parse(text, named="kek.key") for text in texts), *former]


def _by_id(key: DataKey) -> str:
    return key.id


def _need_postgres(config: Config) -> None:
    if config.storage.kind != "postgres":
        raise ConfigError(
            "storage.kind: write `postgres`, its `url`, and `auth.key_encryption_key` into the "
            "configuration first: that is where it is moved to, or from"
        )


def _told(found: Found, source: str, target: str, *, dry: bool) -> Mapping[str, Any]:
    return {
        "from": source,
        "to": target,
        "log": found.log_id,
        "records": found.records,
        "left_the_log": found.front,
        "root": found.root.hex(),
        "signed": found.signed,
        "rows": dict(found.rows),
        "state": "it could be moved" if dry else "moved",
    }
