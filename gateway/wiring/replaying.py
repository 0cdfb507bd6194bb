"""Recorded decisions and the policies that are asked about them again."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gateway.admin.journal import Journal
from gateway.admin.replay import ExplainRecords, Reader, ReplayDesk
from gateway.audit.query import HashesOf
from gateway.config import Config
from gateway.errors import BadCommand, ConfigError
from gateway.policy.archive import PolicyArchive
from gateway.policy.replay import Trial, explained, placed
from gateway.policy.sources import Sources
from gateway.wiring.foundation import now
from gateway.wiring.settings import policy_data, policy_settings
from gateway.wiring.shadow import ARCHIVE


def replay_desk(
    current: Callable[[], Config],
    reader: Reader,
    journal: Journal,
    records_of: ExplainRecords,
    hashes_of: HashesOf,
) -> ReplayDesk:
    """Return the use cases; `reader` is theirs alone, `records_of` finds a decision's records."""
    return ReplayDesk(
        reader,
        journal,
        trials=partial(_trial, current),
        explained=partial(_explained, current),
        placed=lambda record: placed(PolicyArchive(current().data_dir / ARCHIVE), record),
        records_of=records_of,
        hashes_of=hashes_of,
        clock=now,
    )


def _trial(current: Callable[[], Config], files: Mapping[str, str] | None) -> Trial:
    config = current()
    settings = policy_settings(config)
    if files is None and settings.server is not None:
        raise BadCommand("the policy is in a central OPA server; name a folder with --policy")
    given = None if files is None else {path: text.encode() for path, text in files.items()}
    try:
        return Trial.of(settings if given is None else _sources(given), policy_data(config))
    except ConfigError as error:
        raise _told(error) from error


def _sources(files: Mapping[str, bytes]) -> Sources:
    """Take a policy that somebody sent; its files lie below its folder.

    Raises:
        BadCommand: One does not.

    """
    for path in files:
        parts = path.split("/")
        if "\\" in path or "\0" in path or not {"", ".", ".."}.isdisjoint(parts):
            raise BadCommand("a policy's files are named by their paths below its folder")
    return Sources(files=files)


def _explained(current: Callable[[], Config], record: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return explained(PolicyArchive(current().data_dir / ARCHIVE), record)
    except ConfigError as error:
        raise _told(error) from error


def _told(error: ConfigError) -> BadCommand:
    return BadCommand(error.public, reasons=[("policy", problem) for problem in error.problems])
