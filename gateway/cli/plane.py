"""`douane plane`: what to write into a plane's own configuration."""

import os
from pathlib import Path

import click
import yaml

from gateway.cli.context import Place, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.output import cell
from gateway.config import Config
from gateway.config.planes import GrpcListener, PlaneSection, key_of
from gateway.domain.planes import Plane, PlaneKind
from gateway.planes.checks import problems_of
from gateway.planes.configs import KEY, Surroundings, agentgateway, envoy
from gateway.planes.written import read

_READ_LIMIT_BYTES = 32 << 20
_KINDS = {
    "envoy": frozenset({PlaneKind.EXT_PROC, PlaneKind.EXT_AUTHZ}),
    "agentgateway": frozenset({PlaneKind.EXT_MCP}),
}


@click.group()
def plane() -> None:
    """Configure a data plane that asks this gateway."""


@plane.command("config")
@click.argument("product", type=click.Choice(sorted(_KINDS)))
@click.argument("name")
@click.option("--listen", default="127.0.0.1:10000", show_default=True, help="Where clients come.")
@click.option("--with-key", is_flag=True, help="Write the plane's key; without it, KEY.")
@place
def config_(place: Place, /, *, product: str, name: str, listen: str, with_key: bool) -> None:
    """Print a configuration for the plane NAME that asks about everything and fails closed."""
    section, listener = _registered(place.config, name)
    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise Failed("--listen is HOST:PORT", exit_code=WRONG_USE)
    around = _around(place.config, name, section, listener, with_key=with_key)
    if around.plane.kind not in _KINDS[product]:
        kinds = " or ".join(sorted(_KINDS[product]))
        raise Failed(f"{name} is no plane under planes.{kinds}", exit_code=WRONG_USE)
    found = (
        envoy(around, (host.strip("[]"), int(port)))
        if product == "envoy"
        else agentgateway(around, int(port))
    )
    click.echo(yaml.safe_dump(found, sort_keys=False, width=120), nl=False)


@plane.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(*, file: Path) -> None:
    """Say what in a plane's own configuration would let something pass unjudged; exit 1 if anything."""
    try:
        with click.open_file(str(file), "rb") as source:
            content = read(source.read(_READ_LIMIT_BYTES))
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}", exit_code=WRONG_USE) from error
    except ValueError as error:
        raise Failed(f"{file} cannot be read: {error}", exit_code=WRONG_USE) from error
    found = problems_of(content)
    for problem in found:
        click.echo(cell(problem))
    if found:
        raise click.exceptions.Exit(NO)
    click.echo("nothing in it lets anything pass unjudged that is known here")


def _registered(config: Config, name: str) -> tuple[PlaneSection, GrpcListener]:
    section = next((one for _, each, one in config.planes.every if each == name), None)
    if section is None or config.planes.grpc is None:
        raise Failed(f"no plane {name} asks by gRPC here", exit_code=WRONG_USE)
    return section, config.planes.grpc


def _around(
    config: Config, name: str, section: PlaneSection, listener: GrpcListener, *, with_key: bool
) -> Surroundings:
    try:
        plane: Plane = section.value(name, os.environ, config.public_url)
        key = key_of(section.key.resolve(os.environ)) if with_key else KEY
    except ValueError as error:
        raise Failed(f"planes: {name}: key: {error}", exit_code=WRONG_USE) from error
    servers = {}
    for theirs, ours in section.servers.items():
        url = config.servers[ours].url
        if url is None:
            raise Failed(f"{ours} is no server that a plane can reach", exit_code=WRONG_USE)
        servers[theirs] = url
    return Surroundings(
        plane=plane,
        key=key,
        douane=str(listener.listen),
        client_tls=listener.certificate is not None,
        public_url=config.public_url,
        servers=servers,
        most_bytes=config.limits.request_bytes,
    )
