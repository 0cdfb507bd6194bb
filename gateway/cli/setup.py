"""`douane init`, `serve`, `check` and `config`: from an empty folder to a running gateway."""

import asyncio
import gc
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import click

import gateway
from gateway.admin.policy import check_files, test_files
from gateway.admin.rows import Row
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.output import cell, print_json
from gateway.cli.policy import of_files
from gateway.cli.portability import check_for, hosts_of
from gateway.config import TEMPLATE, Config, load, schema, warnings
from gateway.errors import ConfigError, GatewayError
from gateway.pins.hosts import HOSTS

_SOUND_SQLITE = (3, 51, 3)
"""Earlier ones may corrupt a WAL database under concurrent checkpoints."""


@click.command()
@place
def init(place: Place, /) -> None:
    """Write a commented douane.yaml, and the shipped policies beside it."""
    if place.path.exists():
        raise Failed(f"{place.path} is there already; it was left alone", exit_code=NO)
    policies = place.path.parent / "policies"
    try:
        place.path.parent.mkdir(parents=True, exist_ok=True)
        with place.path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
        if not policies.exists():
            shutil.copytree(_shipped_policies(), policies, ignore=_not_shipped)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}; choose a folder you can write to"
        raise Failed(text, exit_code=WRONG_USE) from error
    click.echo(f"wrote {place.path}; the policies are in {policies}")
    click.echo("next: add a server, then `douane check` and `douane serve`")


def _shipped_policies() -> Path:
    """Return the folder that the wheel carries, or the one of a source checkout."""
    package = Path(str(files(gateway)))
    packed = package / "_policies"
    return packed if packed.is_dir() else package.parent / "policies"


def _not_shipped(folder: str, names: Sequence[str]) -> set[str]:
    """Return the rules among `names` that are no version's: a checkout holds what was tried in it."""
    from gateway.policy.shipped import LISTED  # noqa: PLC0415 - it brings the policy room

    listed = (files("gateway.policy") / LISTED).read_text(encoding="ascii")
    shipped = {line.split(maxsplit=1)[1] for line in listed.splitlines()}
    at = Path(folder).relative_to(_shipped_policies())
    rules = [name for name in names if name.endswith(".rego")]
    return {name for name in rules if (at / name).as_posix() not in shipped}


@click.command()
@place
@click.pass_context
def serve(context: click.Context, place: Place) -> None:
    """Run the gateway until it is told to stop."""
    try:
        config = load(place.path, os.environ)
        # Whoever loads numpy first, a migration or the model, decides this for the process: its threads
        # spin while they wait for each other, and take the cores that calls need.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        gc.disable()  # what is made until the gateway is ready stays: `housekeeping.settle`
        from gateway.wiring import serve as run  # noqa: PLC0415 - it brings every adapter with it

        status = run(config, place.path)
    except ConfigError as error:
        raise Failed.of(error) from error
    except GatewayError as error:
        # A log that cannot be written, most of all: what is wrong, and no traceback.
        why = f": {error.detail}" if error.detail else ""
        raise Failed(f"the gateway cannot run: {error.public}{why}", exit_code=NO) from error
    finally:
        gc.enable()
    context.exit(status)


@click.group()
def config() -> None:
    """Describe the configuration file."""


@config.command("schema")
def config_schema() -> None:
    """Print the JSON Schema of douane.yaml."""
    click.echo(json.dumps(schema(), indent=2))


@click.command()
@click.argument("server", required=False)
@click.option("--for", "hosts", help=f"Hosts, with commas between them: {','.join(HOSTS)}.")
@click.option("--offline", is_flag=True, help="Ask no upstream anything.")
@as_json
@in_full
@place
def check(
    place: Place,
    /,
    *,
    server: str | None,
    hosts: str | None,
    offline: bool,
    as_json: bool,
    wide: bool,
) -> None:
    """Find everything that is wrong before the gateway runs; exit 1 if anything is.

    With SERVER and --for: what those hosts refuse, drop or cut of the tools approved of it.
    """
    if (server is None) is not (hosts is None):
        raise click.UsageError("SERVER and --for go together")
    if server is not None and hosts is not None:
        check_for(place, server, hosts_of(hosts), as_json=as_json, wide=wide)
        return
    failed = False
    for finding in _findings(place, offline=offline):
        failed |= finding["level"] == "error"
        if as_json:
            print_json(finding)
        else:
            click.echo(f"{finding['level']}: {cell(finding['text'])}")
    if not failed and not as_json:
        click.echo("nothing is wrong")
    if failed:
        raise click.exceptions.Exit(NO)


def _findings(place: Place, *, offline: bool) -> Iterator[Row]:
    try:
        config = load(place.path, os.environ)
    except ConfigError as error:
        yield from (_error(problem) for problem in error.problems)
        return
    yield from (_warning(text) for text in warnings(config))
    yield from _of_policy(config)
    yield from _of_files(config)
    if sqlite3.sqlite_version_info < _SOUND_SQLITE:
        sound = ".".join(map(str, _SOUND_SQLITE))
        yield _warning(
            f"SQLite is {sqlite3.sqlite_version}, and before {sound} checkpoints that run at the same "
            "time may damage a database: run the gateway with a Python that has a later one (upgrade the "
            "system's libsqlite3, or take a newer base image), and see docs/operations.md, SQLite"
        )
    yield from _of_model(config)
    yield from _of_local_servers(config)
    yield from _of_programs(config)
    if not offline:
        yield from _of_storage(config)
        yield from _of_upstreams(config)
        yield from _of_issuers(config)


def _of_policy(config: Config) -> Iterator[Row]:
    try:
        compiled = of_files(config, check_files)
        yield from (_error(problem) for problem in compiled["problems"])
        yield from (_warning(f"policy: {notice}") for notice in compiled["notices"])
        if not compiled["ok"]:
            return
        tested = of_files(config, test_files)
    except Failed as error:
        yield _error(error.message)
        return
    yield from (_error(f"policy test failed: {text}") for text in tested["failures"])
    if not tested["passed"] + tested["changed"] + tested["failed"]:
        yield _warning(f"policy.path: {config.policy.path} holds no tests")


def _of_files(config: Config) -> Iterator[Row]:
    secret_files = [Path(ref.name) for ref in config.references if ref.kind == "file"]
    if config.tls is not None:
        secret_files.append(config.tls.key)
        if not config.tls.certificate.is_file():
            yield _error(f"tls.certificate: {config.tls.certificate} is not there")
    secret_files += sorted(config.data_dir.glob("*.key"))
    for path in secret_files:
        yield from _of_secret_file(path)


def _of_secret_file(path: Path) -> Iterator[Row]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        yield _error(f"{path} cannot be read: {error.strerror}")
        return
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield _error(f"{path} can be reached by others (mode {mode:04o}); run: chmod 600 {path}")


def _of_model(config: Config) -> Iterator[Row]:
    from gateway.wiring import check_model  # noqa: PLC0415 - it brings every adapter with it

    try:
        check_model(config)
    except ConfigError as error:
        yield _error(error.public)


def _of_local_servers(config: Config) -> Iterator[Row]:
    from gateway.wiring import probe_local  # noqa: PLC0415 - it brings every adapter with it

    for server, why in asyncio.run(probe_local(config)).items():
        yield _error(f"servers.{server}: {why}")


def _of_programs(config: Config) -> Iterator[Row]:
    from gateway.wiring import probe_programs  # noqa: PLC0415 - it brings every adapter with it

    try:
        found = asyncio.run(probe_programs(config))
    except ConfigError as error:
        yield _error(error.public)
        return
    for language, held in found.items():
        which = "programs" if language == "python" else f"programs in {language}"
        if isinstance(held, str):
            yield {"level": "info", "text": f"code: {which} are not run: {held}"}
            continue
        checked = language == "python" or (held.jailed and config.code.typescript_check)
        types = "" if checked else "; types are not checked"
        if held.jailed:
            yield {"level": "info", "text": f"code: {which} run in a jail{types}"}
        else:
            say = _error if config.code.jail == "required" else _warning
            yield say(f"code: {which} run without a jail: {held.reason}{types}")


def _of_storage(config: Config) -> Iterator[Row]:
    from gateway.wiring import probe_storage  # noqa: PLC0415 - it brings every adapter with it

    try:
        for found in probe_storage(config):
            text = f"storage: {found['text']}"
            yield _error(text) if found["wrong"] else {"level": "info", "text": text}
    except ConfigError as error:
        yield from (_error(text) for text in error.problems or [error.public])


def _of_upstreams(config: Config) -> Iterator[Row]:
    from gateway.wiring import probe  # noqa: PLC0415 - it brings every adapter with it

    try:
        found = asyncio.run(probe(config))
    except GatewayError as error:
        yield _error(error.public)
        return
    for server, why in found.silent.items():
        yield _warning(
            f"servers.{server}: it was not reached, or is no MCP server, so calls of it will fail: {why}; "
            "start it, or mend its `url`"
        )
    for server in found.open:
        yield _warning(
            f"servers.{server}: it answers without credentials, so whoever reaches it gets around "
            "the gateway; close it to everybody else"
        )


def _of_issuers(config: Config) -> Iterator[Row]:
    from gateway.wiring import probe_issuers  # noqa: PLC0415 - it brings every adapter with it

    try:
        wrong = asyncio.run(probe_issuers(config))
    except GatewayError as error:
        yield _error(error.public)
        return
    for issuer, why in wrong.items():
        yield _error(
            f"{issuer} cannot be used, so nobody can sign in there: {why}; compare it with what the "
            "provider says of itself, and see that this machine reaches it"
        )


def _error(text: str) -> Row:
    return {"level": "error", "text": text}


def _warning(text: str) -> Row:
    return {"level": "warning", "text": text}
