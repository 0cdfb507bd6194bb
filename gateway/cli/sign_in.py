"""`douane login`, `logout` and `whoami`: acting as a person of the gateway."""

import os
import secrets
import sys
import time
import webbrowser

import click
from pydantic import TypeAdapter, ValidationError

from gateway.cli.authorization import PublicEndpoints, Refused, Unreachable
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.loopback import way_back
from gateway.cli.output import cell, print_fields
from gateway.cli.tokens import Kept, Tokens
from gateway.config.values import PublicOrigin

_PATIENCE_S = 300.0
_SLOWER_S = 5.0
"""RFC 8628 section 3.5."""
_SHORTEST_INTERVAL_S = 1.0

_sleep = time.sleep

_url = click.option("--url", help="The gateway's public URL. Default: the configuration's.")


@click.command()
@click.option("--device", is_flag=True, help="With a browser on another machine.")
@_url
@place
def login(place: Place, /, *, device: bool, url: str | None) -> None:
    """Sign in at the gateway in a browser; later commands act as that person."""
    issuer = _issuer(place, url)
    try:
        endpoints = PublicEndpoints.of(issuer)
        tokens = _by_device(endpoints) if device else _by_browser(endpoints)
    except (Refused, Unreachable) as error:
        raise Failed(f"not signed in: {cell(str(error))}", exit_code=NO) from error
    kept = Kept(issuer)
    kept.write(tokens)
    click.echo(f"signed in at {issuer}; `douane logout` ends it")


@click.command()
@_url
@place
def logout(place: Place, /, *, url: str | None) -> None:
    """End the sign-in of `douane login`, here and at the gateway."""
    issuer = _issuer(place, url)
    kept = Kept(issuer)
    found = kept.read()
    kept.forget()
    if found is None:
        raise Failed(f"you are not signed in at {issuer}", exit_code=NO)
    try:
        PublicEndpoints.of(issuer).end(found.refresh_token or found.access_token)
    except (Refused, Unreachable) as error:
        told = cell(str(error))
        text = f"forgotten here, but not ended at the gateway: {told}; see `douane users grants`"
        raise Failed(text, exit_code=NO) from error
    click.echo(f"signed out at {issuer}")


@click.command()
@as_json
@place
def whoami(place: Place, /, *, as_json: bool) -> None:
    """Show who the gateway takes you for, and what you may do."""
    with connect(place.config) as gateway:
        row = gateway.call("whoami")
    print_fields(row, as_json=as_json)


def _issuer(place: Place, url: str | None) -> str:
    if url is None:
        return place.config.public_url
    try:
        return TypeAdapter(PublicOrigin).validate_python(url)
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise Failed(f"--url: {why}", exit_code=WRONG_USE) from error


def _by_browser(endpoints: PublicEndpoints) -> Tokens:
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    with way_back(endpoints.issuer, state) as back:
        url = endpoints.authorization_url(
            redirect_uri=back.redirect_uri, state=state, verifier=verifier
        )
        click.echo(f"sign in here: {url}")
        if _has_display():
            webbrowser.open(url)
        code = back.code(patience_s=_PATIENCE_S)
    answer = endpoints.redeem(code, redirect_uri=back.redirect_uri, verifier=verifier)
    return Tokens.of(endpoints.issuer, answer, now=time.time())


def _by_device(endpoints: PublicEndpoints) -> Tokens:
    device = endpoints.begin_device()
    click.echo(f"open {cell(device.url)} and type {cell(device.user_code)}")
    if device.whole_url:
        click.echo(f"or open {cell(device.whole_url)}")
    interval_s = max(device.interval_s, _SHORTEST_INTERVAL_S)
    left_s = device.expires_in_s
    while left_s > 0:
        _sleep(interval_s)
        left_s -= interval_s
        try:
            answer = endpoints.poll_device(device)
        except Refused as error:
            if error.error == "slow_down":
                interval_s += _SLOWER_S
            elif error.error != "authorization_pending":
                raise
        else:
            return Tokens.of(endpoints.issuer, answer, now=time.time())
    raise Failed("nobody signed in in time; try again", exit_code=NO)


def _has_display() -> bool:
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
