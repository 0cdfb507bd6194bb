"""What is counted, and that no caller can invent a series."""

from dataclasses import replace

import pytest

from gateway.domain.calls import Call, Form, Reply
from gateway.errors import Denied, GatewayError
from gateway.web.metrics import Metered, Metrics
from tests.pipeline.house import House


class Scripted:
    """A carrier that answers everything alike."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def handle(self, call: Call) -> Reply:
        return self.reply

    async def refuse(self, call: Call, error: GatewayError) -> Reply:
        return replace(self.reply, code=error.code)


def reply(status: int = 200, code: str | None = None) -> Reply:
    return Reply(status=status, headers=(), body=b"", code=code)


def series(metrics: Metrics) -> dict[str, float]:
    """Return the counted series that are not zero; neither buckets nor times of creation."""
    found = {}
    for line in metrics.page().decode().splitlines():
        name, _, count = line.rpartition(" ")
        if not line.startswith("#") and "_bucket" not in name and "_created" not in name:
            found[name] = float(count)
    return {name: count for name, count in found.items() if count and "_sum" not in name}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def test_a_carried_call_is_counted_and_timed(metrics):
    call = House().call()
    answer = reply()
    assert await Metered(Scripted(answer), metrics).handle(call) is answer
    assert series(metrics) == {
        'douane_requests_total{method="tools/call",outcome="ok",server="mail"}': 1,
        'douane_request_duration_seconds_count{method="tools/call",server="mail"}': 1,
    }


async def test_a_refusal_is_counted_by_its_code(metrics):
    refused = await Metered(Scripted(reply()), metrics).refuse(House().call(), Denied("no"))
    assert refused.code == "denied"
    assert series(metrics) == {
        'douane_requests_total{method="tools/call",outcome="denied",server="mail"}': 1,
        'douane_request_duration_seconds_count{method="tools/call",server="mail"}': 1,
        'douane_refusals_total{code="denied"}': 1,
    }


async def test_an_error_of_the_upstreams_is_no_refusal_of_ours(metrics):
    await Metered(Scripted(reply(404)), metrics).handle(House().call())
    assert 'douane_requests_total{method="tools/call",outcome="upstream_error",server="mail"}' in (
        series(metrics)
    )
    assert not any("refusals" in name for name in series(metrics))


@pytest.mark.parametrize(
    ("code", "method", "result"),
    [(None, "initialize", "success"), ("denied", "server/discover", "failure")],
)
async def test_a_handshake_is_counted_by_its_result(metrics, code, method, result):
    await Metered(Scripted(reply(code=code)), metrics).handle(House().request(method))
    name = f'douane_session_initializations_total{{result="{result}",server="mail"}}'
    assert series(metrics)[name] == 1


@pytest.mark.parametrize(
    ("form", "told"),
    [(Form.REQUEST, "other"), (Form.NOTIFICATION, "notification"), (Form.STREAM, "stream")],
)
async def test_a_method_that_a_caller_invented_is_no_series_of_its_own(metrics, form, told):
    await Metered(Scripted(reply()), metrics).handle(House().request("evil/method", form=form))
    assert f'douane_requests_total{{method="{told}",outcome="ok",server="mail"}}' in series(metrics)
    assert "evil" not in metrics.page().decode()


async def test_no_argument_tool_or_person_is_in_a_label(metrics):
    await Metered(Scripted(reply()), metrics).handle(House().call("secret_tool", {"to": "eve"}))
    page = metrics.page().decode()
    assert not [word for word in ("secret_tool", "eve", "alice") if word in page]
