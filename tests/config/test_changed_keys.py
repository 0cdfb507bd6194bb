"""What differs between two configurations is named by the key that somebody wrote."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config import parse
from gateway.config.changes import changed_keys

BASE = "version: 1\npublic_url: http://127.0.0.1:8080\n"


def config(text: str) -> Any:
    return parse(BASE + text, file=Path("/etc/douane/douane.yaml"))


@pytest.mark.parametrize(
    ("before", "after", "key", "changed"),
    [
        ("", "limits: {request_bytes: 5000}\n", "limits", ["limits.request_bytes"]),
        (
            "auth: {token_lifetime: 5m}\n",
            "auth: {registration: {mode: closed}}\n",
            "auth",
            ["auth.token_lifetime", "auth.registration.mode"],
        ),
        ("", "listen: 127.0.0.1:9000\n", "listen", ["listen"]),
        ("data_dir: ./a\n", "data_dir: ./b\n", "data_dir", ["data_dir"]),
        ("egress: {allow: [10.0.0.1]}\n", "", "egress", ["egress.allow"]),
        (
            "tls: {certificate: a.pem, key: b.pem}\n",
            "tls: {certificate: a.pem, key: c.pem}\n",
            "tls",
            ["tls.key"],
        ),
        ("", "tls: {certificate: a.pem, key: b.pem}\n", "tls", ["tls"]),
    ],
)
def test_the_key_that_differs_is_named(
    before: str, after: str, key: str, changed: list[str]
) -> None:
    assert sorted(changed_keys(config(before), config(after), key)) == sorted(changed)
