"""Commands that are printed for people to paste: for the same configuration as the one that runs."""

import shlex
from collections.abc import Sequence

import click
from click.core import ParameterSource

_OURS = "`douane "


def command(*words: str) -> str:
    """Return a command of ours as a shell takes it."""
    return shlex.join(["douane", *_same_place(), *words])


def same_place(text: str) -> str:
    """Return `text` with its commands of ours, which stand in backticks, as they can be pasted."""
    options = _same_place()
    return text.replace(_OURS, f"{_OURS}{shlex.join(options)} ") if options else text


def say_undo(*words: str) -> None:
    """Print, beside what was done, the command that undoes it."""
    click.echo(f"undo: {command(*words)}")


def _same_place() -> Sequence[str]:
    """Return the option by which the running command was told where the configuration is."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ()
    root = context.find_root()
    given = root.get_parameter_source("path") is ParameterSource.COMMANDLINE
    return ("--config", str(root.params["path"])) if given else ()
