"""What is said where the log itself is late: what was recorded last is in no answer yet."""

from typing import Any

import click


def late(lag_s: float) -> str:
    """Return how late it is, in words."""
    return f"the log is {lag_s} s late"


def say_lag(lag: dict[str, Any]) -> None:
    """Say on standard error what an answer lacks, if `audit.lag` said that it lacks something."""
    if lag["late"]:
        click.echo(f"{late(lag['lag_s'])}: what was recorded since is not in this answer", err=True)
