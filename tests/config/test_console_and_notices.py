"""The section `console`, where the desk is, and the webhooks of `alerts`, which lead there."""

from pathlib import Path

import pytest
import yaml

from gateway.config import parse
from gateway.errors import ConfigError


def told(**console):
    auth = console.pop("auth", {})
    return parse(
        yaml.safe_dump(
            {"version": 1, "public_url": "http://127.0.0.1:8080", "auth": auth, "console": console}
        ),
        file=Path("douane.yaml"),
    )


def test_it_is_at_the_public_url_unless_it_has_a_listener():
    assert told().desk_url == "http://127.0.0.1:8080"
    assert told(listen="127.0.0.1:8082").desk_url == "http://127.0.0.1:8082"
    named = told(listen="0.0.0.0:8443", url="https://desk.example.com")
    assert named.desk_url == "https://desk.example.com"


@pytest.mark.parametrize(
    ("console", "why"),
    [
        ({"listen": "127.0.0.1:8080"}, "an address of its own"),
        ({"listen": "127.0.0.1:8081"}, "an address of its own"),
        ({"listen": "0.0.0.0:8443"}, "which origin"),
        ({"listen": "127.0.0.1:8082", "url": "http://127.0.0.1:8080"}, "must not be `public_url`"),
        ({"listen": "127.0.0.1:8082", "url": "http://desk.example.com"}, "must be https"),
        ({"url": "https://desk.example.com"}, "goes with `console.listen`"),
    ],
)
def test_a_listener_of_its_own_is_its_own(console, why):
    with pytest.raises(ConfigError) as refused:
        told(**console)
    assert why in str(refused.value.problems)


def test_where_nobody_signs_in_there_is_no_desk_apart():
    external = {
        "mode": "external",
        "external": {"issuer": "https://id.example.com", "profile": "rfc9068"},
    }
    with pytest.raises(ConfigError) as refused:
        told(listen="127.0.0.1:8082", auth=external)
    assert "nobody signs in here" in str(refused.value.problems)


def test_a_program_has_a_key_and_a_chat_needs_none():
    def webhook(shape):
        one = {"shape": shape, "url": "https://chat.example", "events": ["approval"]}
        whole = {
            "version": 1,
            "public_url": "http://127.0.0.1:8080",
            "alerts": {"webhooks": {"one": one}},
        }
        return parse(yaml.safe_dump(whole), file=Path("douane.yaml"))

    assert webhook("slack").alerts.webhooks["one"].secret is None
    with pytest.raises(ConfigError) as refused:
        webhook("json")
    assert "what its receiver knows the gateway by" in str(refused.value.problems)
