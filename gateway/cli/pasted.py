"""Commands that are printed for people to paste: for the same configuration as the one that runs."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

_NAME = "douane"
_OURS = f"`{_NAME} "


def command(*words: str) -> str:
    """Return a command of ours as a shell takes it."""
    return shlex.join([_program(), *_same_place(), *words])


def same_place(text: str) -> str:
    """Return `text` with its commands of ours, which stand in backticks, as they can be pasted."""
    return text.replace(_OURS, f"`{shlex.join([_program(), *_same_place()])} ")


def say_undo(*words: str) -> None:
    """Print, beside what was done, the command that undoes it."""
    click.echo(f"undo: {command(*words)}")


def _program() -> str:
    """Return what a shell must be told to start us again: a path where `douane` alone would not."""
    started = Path(sys.argv[0])
    found = shutil.which(_NAME)
    if started.name != _NAME or (found and Path(found).resolve() == started.resolve()):
        return _NAME
    return str(started)


def _same_place() -> Sequence[str]:
    """Return the option by which the running command was told where the configuration is."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ()
    root = context.find_root()
    given = root.get_parameter_source("path") is ParameterSource.COMMANDLINE
    return ("--config", str(root.params["path"])) if given else ()
