"""The directory knows the configured upstreams and nobody else."""

import pytest

from gateway.domain.tools import Kind, UpstreamId
from gateway.errors import UnknownTool
from gateway.upstream.directory import Directory
from gateway.upstream.http import HttpUpstream
from gateway.upstream.settings import UpstreamSettings

MAIL = UpstreamId("mail")


def upstream() -> HttpUpstream:
    return HttpUpstream(UpstreamSettings(server=MAIL, url="http://127.0.0.1:1/mcp"))


def test_a_configured_server_has_its_upstream():
    mail = upstream()
    assert Directory({MAIL: mail}, announce=lambda *_: None).of(MAIL) is mail


@pytest.mark.parametrize("name", ["", "Mail", "mail ", "other"])
def test_any_other_server_is_unknown(name: str):
    directory = Directory({MAIL: upstream()}, announce=lambda *_: None)
    with pytest.raises(UnknownTool):
        directory.of(UpstreamId(name))


def test_what_a_configured_server_announces_is_passed_on_and_nothing_else():
    told: list[tuple[str, Kind]] = []
    directory = Directory({MAIL: upstream()}, announce=lambda *news: told.append(news))
    directory.announce(MAIL, Kind.TOOL)
    directory.announce(UpstreamId("other"), Kind.TOOL)
    assert told == [(MAIL, Kind.TOOL)]
