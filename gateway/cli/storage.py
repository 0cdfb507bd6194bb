"""`douane storage`: where everything is kept, its tables made by their owner, and moved there and back."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from gateway.cli.context import Place, as_json, place
from gateway.cli.failure import Failed
from gateway.cli.output import print_fields
from gateway.errors import ConfigError

_BAR: Final = 30
_EVERY_S: Final = 5.0
"""How often a line is printed of the same step, where there is no terminal."""
_WHOLE: Final = 100


@click.group()
def storage() -> None:
    """Tables in PostgreSQL, and all that the gateway keeps moved there and back."""


@storage.command()
@click.option("--admit", "role", metavar="ROLE", help="Let this role be a gateway's user.")
@click.option("--keeper", is_flag=True, help="Let it archive and remove old records as well.")
@place
def tables(place: Place, /, *, role: str | None, keeper: bool) -> None:
    """Make the tables in the PostgreSQL of storage.url, or bring them up to date.

    The user in storage.url is who owns them then. Nothing else is made, and no gateway is started. After an
    upgrade, do so again with the same options.
    """
    if keeper and role is None:
        raise click.UsageError("--keeper is for --admit")
    from gateway.wiring import make_tables  # noqa: PLC0415 - it brings every adapter

    try:
        make_tables(place.config, admit=role or "", keeps=keeper)
    except ConfigError as error:
        raise Failed.of(error) from error
    click.echo("the tables are up to date" + (f"; {role} is admitted" if role else ""))


@storage.command("migrate")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to move. Default: data_dir.",
)
@click.option(
    "--back",
    type=click.Path(path_type=Path, file_okay=False),
    help="Move out of PostgreSQL instead, into this folder, which is not there yet.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Look whether it can be moved; write nothing.")
@as_json
@place
def migrate(
    place: Place, /, *, source: Path | None, back: Path | None, dry: bool, as_json: bool
) -> None:
    """Move a folder of SQLite to the PostgreSQL of storage.url, with its log and its keys.

    No gateway may run on either. All is compared before anything is in force there; the folder
    stays as it is and serves no more. Cut short at any point, the same command goes on.
    """
    if source is not None and back is not None:
        raise click.UsageError("either --from or --back")
    config = place.config
    from gateway.wiring import moved_back, moved_in  # noqa: PLC0415 - it brings every adapter

    tell = _progress()
    try:
        if back is not None:
            row = moved_back(config, back, dry=dry, tell=tell)
        else:
            row = moved_in(config, source or config.data_dir, dry=dry, tell=tell)
    except ConfigError as error:
        raise Failed.of(error) from error
    print_fields(row, as_json=as_json)


@storage.command("reopen")
@as_json
@place
def reopen(place: Place, /, *, as_json: bool) -> None:
    """Have what storage names serve again, after it was moved elsewhere.

    What was recorded there since is not in it. Stop every gateway there first: one log with two ends is
    what witnesses are for.
    """
    from gateway.wiring import reopen_storage  # noqa: PLC0415 - it brings every adapter

    try:
        row = reopen_storage(place.config)
    except ConfigError as error:
        raise Failed.of(error) from error
    print_fields(row, as_json=as_json)


def _progress() -> Callable[[str, int, int], None]:
    """Return what shows a person on a terminal how far it is, and tells a log a line at a time."""
    return _Bar() if sys.stderr.isatty() else _Lines()


class _Bar:
    """One line that grows; each step leaves its own."""

    def __call__(self, what: str, done: int, of: int) -> None:
        full = _BAR * done // max(of, 1)
        bar = "#" * full + "." * (_BAR - full)
        percent = _WHOLE * done // max(of, 1)
        click.echo(f"\r\x1b[K[{bar}] {percent:3} % {what}", nl=done >= of, err=True)


class _Lines:
    """A line at the beginning and the end of each step, and one from time to time."""

    def __init__(self) -> None:
        self._what = ""
        self._told_at = 0.0

    def __call__(self, what: str, done: int, of: int) -> None:
        at = time.monotonic()
        if what == self._what and done < of and at - self._told_at < _EVERY_S:
            return
        self._what, self._told_at = what, at
        click.echo(f"{what}: {done} of {of}" if of > 1 else _step(what, done), err=True)


def _step(what: str, done: int) -> str:
    return f"{what}: done" if done else what
