"""`douane users`: people, and what they have open."""

import click

from gateway.cli.access import connections, consents, grants, sessions
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.output import Column, print_fields, print_rows
from gateway.cli.pasted import say_undo

_COLUMNS = (
    Column(name="user", whole=True),
    "name",
    "groups",
    "roles",
    Column(name="os_user", wide=True),
    "disabled",
    Column(name="created_by", wide=True),
)

_groups = click.option("--group", "groups", multiple=True, help="May be repeated.")
_os_user = click.option(
    "--os-user", help="The operating system's user that is this person at the command line."
)


@click.group()
def users() -> None:
    """Add, change and remove people, and end what they have open."""


for _group in (sessions, consents, grants, connections):
    users.add_command(_group)


@users.command("list")
@as_json
@in_full
@place
def list_(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List people, with the roles that their groups give them now."""
    with connect(place.config) as gateway:
        rows = gateway.call("users.list")
    print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)


@users.command()
@click.argument("name")
@click.option("--group", "groups", multiple=True, default=("users",), show_default=True)
@_os_user
@click.option("--display-name", default="", help="What other people read; by default NAME.")
@as_json
@place
def add(
    place: Place,
    /,
    *,
    name: str,
    groups: tuple[str, ...],
    os_user: str | None,
    display_name: str,
    as_json: bool,
) -> None:
    """Add a person. The link with which they choose a password is shown this once."""
    with connect(place.config) as gateway:
        row = gateway.call(
            "users.add",
            name=name,
            groups=groups,
            os_user=os_user or "",
            display_name=display_name,
        )
    print_fields(row, as_json=as_json)
    if not as_json:
        say_undo("users", "remove", name)


@users.command()
@click.argument("user")
@_groups
@click.option("--no-groups", is_flag=True, help="Take every group away.")
@_os_user
@click.option("--no-os-user", is_flag=True, help="Be no user of the operating system any more.")
@as_json
@place
def change(
    place: Place,
    /,
    *,
    user: str,
    groups: tuple[str, ...],
    no_groups: bool,
    os_user: str | None,
    no_os_user: bool,
    as_json: bool,
) -> None:
    """Put USER into exactly the given groups, or make them an operating system's user."""
    if (groups and no_groups) or (os_user and no_os_user):
        raise click.UsageError("give a value or take it away, not both")
    with connect(place.config) as gateway:
        row = gateway.call(
            "users.change",
            user=user,
            groups=groups if groups or no_groups else None,
            os_user="" if no_os_user else os_user,
        )
    print_fields(row, as_json=as_json)


@users.command()
@click.argument("user")
@as_json
@place
def disable(place: Place, /, *, user: str, as_json: bool) -> None:
    """Let USER do nothing more, at once: sessions end, tokens are worthless."""
    _act(place, "users.disable", user, as_json=as_json, undo="enable")


@users.command()
@click.argument("user")
@as_json
@place
def enable(place: Place, /, *, user: str, as_json: bool) -> None:
    """Let USER sign in again."""
    _act(place, "users.enable", user, as_json=as_json, undo="disable")


@users.command()
@click.argument("user")
@as_json
@place
def remove(place: Place, /, *, user: str, as_json: bool) -> None:
    """Forget USER, with everything that they have open."""
    _act(place, "users.remove", user, as_json=as_json)


@users.command()
@click.argument("user")
@as_json
@place
def link(place: Place, /, *, user: str, as_json: bool) -> None:
    """Show a new one-time link with which USER chooses a password; older ones end."""
    _act(place, "users.link", user, as_json=as_json)


def _act(place: Place, command: str, user: str, *, as_json: bool, undo: str = "") -> None:
    with connect(place.config) as gateway:
        row = gateway.call(command, user=user)
    print_fields(row, as_json=as_json)
    if undo and not as_json:
        say_undo("users", undo, user)
