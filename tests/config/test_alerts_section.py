"""The section `alerts` is refused where nobody could trust what a webhook is told."""

import base64
from pathlib import Path

import pytest

from gateway.config import Config, Secret, SecretRef, parse
from gateway.config.alerts import signing_key
from gateway.errors import ConfigError

FILE = Path("/etc/douane/douane.yaml")
HEAD = "version: 1\npublic_url: http://127.0.0.1:8080\n"
HOOK = "url: 'https://hooks.example/x', secret: 'env:HOOK', events: [approval]"
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def config(text: str, environ: dict[str, str] | None = None) -> Config:
    return parse(HEAD + text, file=FILE, environ=environ)


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config(text, environ)
    return [problem.removeprefix(f"{FILE}:3: ") for problem in caught.value.problems]


def test_without_a_word_behaviour_is_learned_and_nobody_is_told() -> None:
    assert config("").alerts.model_dump() == {
        "baselines": "learn",
        "learning": 14 * 86400.0,
        "webhooks": {},
    }


def test_nothing_is_learned_where_nobody_wants_it() -> None:
    assert config("alerts: {baselines: off}").alerts.baselines == "off"


def test_a_webhook_is_taken() -> None:
    (hook,) = config(
        f"alerts: {{webhooks: {{ops: {{{HOOK}}}}}}}", {"HOOK": SECRET}
    ).alerts.webhooks.values()
    assert hook.url == "https://hooks.example/x"
    assert hook.secret == SecretRef(kind="env", name="HOOK")
    assert hook.events == ("approval",)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("whsec_" + base64.b64encode(b"k" * 23).decode(), id="short"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 65).decode(), id="long"),
        pytest.param(base64.b64encode(b"k" * 32).decode(), id="bare"),
        pytest.param("whsec_not base64", id="no base64"),
    ],
)
def test_a_secret_that_is_none_is_told_when_it_is_tried(text: str) -> None:
    written = f"alerts: {{webhooks: {{ops: {{{HOOK}}}}}}}"
    (told,) = problems(written, {"HOOK": text})
    assert told == (
        "alerts.webhooks.ops.secret: write `whsec_` and the base64 of 24 to 64 random bytes: "
        '`echo "whsec_$(openssl rand -base64 32)"`'
    )
    with pytest.raises(ValueError, match="base64"):
        signing_key(Secret(text))


def test_the_key_is_what_the_base64_says() -> None:
    assert signing_key(Secret(SECRET)) == b"k" * 32


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param(
            {"https://hooks.example/x": "http://hooks.example/x"},
            "alerts.webhooks.ops.url: must be https; http is for loopback hosts only",
            id="plain http",
        ),
        pytest.param(
            {"events: [approval]": "events: []"},
            "alerts.webhooks.ops.events: Tuple should have at least 1 item",
            id="nothing to tell",
        ),
        pytest.param(
            {"events: [approval]": "events: [everything]"},
            "alerts.webhooks.ops.events[0]: write `approval`, `drift`, `anomaly`, `policy` or `audit`",
            id="no event",
        ),
    ],
)
def test_a_webhook_that_cannot_be_is_refused(changed: dict[str, str], told: str) -> None:
    hook = HOOK
    for before, after in changed.items():
        hook = hook.replace(before, after)
    found = problems(f"alerts: {{webhooks: {{ops: {{{hook}}}}}}}")
    assert any(problem.startswith(told) for problem in found)


def test_a_webhook_on_this_machine_may_be_plain_http() -> None:
    hook = HOOK.replace("https://hooks.example", "http://127.0.0.1:9000")
    found = config(f"alerts: {{webhooks: {{ops: {{{hook}}}}}}}").alerts.webhooks["ops"]
    assert found.url == "http://127.0.0.1:9000/x"


def test_a_name_is_one_that_metrics_and_cursors_can_bear() -> None:
    (told,) = problems(f"alerts: {{webhooks: {{'Ops!': {{{HOOK}}}}}}}")
    assert "a webhook's name is 1 to 32 of a-z" in told
