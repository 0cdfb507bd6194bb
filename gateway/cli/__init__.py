"""The `douane` command. Exit status: 0 it is so, 1 the answer is no, 2 wrong use."""

from pathlib import Path

import click

from gateway.cli import audit_keeping as _audit_keeping  # noqa: F401 - its commands are of `audit`
from gateway.cli.alerts import alerts
from gateway.cli.approvals import approvals
from gateway.cli.ask import ask
from gateway.cli.audit import audit
from gateway.cli.clients import clients
from gateway.cli.context import Place
from gateway.cli.discovery import discovery
from gateway.cli.dlp import dlp
from gateway.cli.operations import keys, servers, version
from gateway.cli.pins import pins
from gateway.cli.plane import plane
from gateway.cli.policy import policy
from gateway.cli.runs import runs
from gateway.cli.setup import check, config, init, serve
from gateway.cli.sign_in import login, logout, whoami
from gateway.cli.storage import storage
from gateway.cli.usage import usage
from gateway.cli.users import users


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=Path("douane.yaml"),
    envvar="DOUANE_CONFIG",
    show_default=True,
    help="The configuration file.",
)
@click.pass_context
def main(context: click.Context, path: Path) -> None:
    """Douane, a security gateway in front of MCP servers."""
    context.obj = Place(path)


for _command in (
    init,
    serve,
    check,
    config,
    login,
    logout,
    whoami,
    servers,
    users,
    clients,
    pins,
    policy,
    plane,
    approvals,
    alerts,
    audit,
    runs,
    usage,
    dlp,
    discovery,
    keys,
    storage,
    version,
):
    main.add_command(_command)
audit.add_command(ask)
