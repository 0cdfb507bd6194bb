"""What of calls may be written down, and what never, as the configuration in force says."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from gateway.audit.redaction import Level, Levels, Redaction, ServerLevels
from gateway.config import Config
from gateway.config.model import Server


def levels_of(config: Config) -> Levels:
    """Return how much of the arguments of which tool is written down."""
    everywhere = Level(redaction=Redaction(config.audit.redaction))
    return Levels(everywhere, {name: _of_server(one) for name, one in config.servers.items()})


def held_by(config: Config, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the operator's secrets, word for word; whoever needs one that is missing says so."""
    held: list[str] = []
    for reference in config.references:
        with suppress(ValueError):
            held.append(reference.resolve(environ).reveal())
    return held


def _of_server(server: Server) -> ServerLevels:
    levels = {name: tool.audit.level for name, tool in server.tools.items()}
    return ServerLevels(
        level=server.audit.level,
        tools={name: level for name, level in levels.items() if level is not None},
    )
