"""What every command shares: the configuration's path, and options that are alike everywhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.cli.failure import WRONG_USE, Failed
from gateway.config import Config, load
from gateway.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
in_full = click.option("--wide", is_flag=True, help="Every column, whole, however wide that is.")
_READ_LIMIT_BYTES = 32 << 20


class Place:
    """Where the configuration is. It is read when a command first needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._config: Config | None = None

    @property
    def config(self) -> Config:
        """The configuration, its secrets untried.

        Raises:
            Failed: It cannot be used.

        """
        if self._config is None:
            try:
                self._config = load(self.path)
            except ConfigError as error:
                raise Failed.of(error) from error
        return self._config


place = click.make_pass_decorator(Place)


def read_json(path: Path) -> Any:
    """Return the JSON in a file that a person named; `-` is standard input.

    Raises:
        Failed: There is none.

    """
    try:
        with click.open_file(str(path), "rb") as file:
            data = file.read(_READ_LIMIT_BYTES + 1)
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}", exit_code=WRONG_USE) from error
    if len(data) > _READ_LIMIT_BYTES:
        raise Failed(f"{path} is larger than {_READ_LIMIT_BYTES} bytes", exit_code=WRONG_USE)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Failed(f"{path} is not JSON: {error}", exit_code=WRONG_USE) from error
