"""What is read of a server's greeting: a person approves what it says of itself, and nobody its version."""

import pytest

from gateway.domain.tools import Profile
from gateway.wire.greeting import server_item


@pytest.mark.parametrize(
    ("version", "read"),
    [("7", "7"), ("v" * 256, "v" * 256), ("v" * 257, ""), (7, ""), (None, "")],
)
@pytest.mark.parametrize("profile", Profile)
def test_a_version_is_short_for_every_pin_repeats_it(profile, version, read):
    info = {"name": "mail", "version": version}
    meta = {"io.modelcontextprotocol/serverInfo": info}
    assert server_item(profile, {"serverInfo": info, "_meta": meta})[1] == read
