"""Cerbos beside policy: a call goes out if both allow it, and none does while it is away."""

import platform
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.e2e.conftest import policies_in
from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.servers.process import cerbos, free_port

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="Cerbos is there for this processor only"
)
RULES = """\
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: tool
  version: default
  rules:
    - actions: ["tools/call"]
      effect: EFFECT_ALLOW
      roles: ["user"]
      condition:
        match:
          all:
            of:
              - expr: R.attr.server == "raw" && R.attr.effect == "read"
              - expr: R.id != "slow" && has(P.attr.groups)
"""


class Site:
    """A gateway with Cerbos beside its policy, which can be ended."""

    def __init__(self, gateway: Corridor, raw: Raw, point: ExitStack) -> None:
        self.gateway = gateway
        self.raw = raw
        self.point = point

    def refusal(self, tool: str) -> tuple[str, list[str]]:
        """Call a tool; return the refusal's code and reasons."""
        self.raw.forget()
        answered = Poster(self.gateway, "raw").call(tool)
        if answered.refusal is None:
            assert self.raw.methods == ["tools/call"]
            return "", []
        assert self.raw.methods == []
        said = answered.json["result"]["_meta"]["douane/refusal"]
        return said["code"], [reason["code"] for reason in said["reasons"]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, session_raw: Raw) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("cerbos")
    rules, port = folder / "rules", free_port()
    rules.mkdir()
    (rules / "tool.yaml").write_text(RULES)
    with ExitStack() as point:
        there = point.enter_context(cerbos(folder, rules, port=port))
        more = {"send": ["groups", "arguments", "label"], "deadline": "20s"}
        asked = {"authzen": {"url": there.origin, **more}}
        policy: dict[str, Any] = {"policy": {"path": str(policies_in(folder)), **asked}}
        with own_gateway(folder / "gateway", session_raw, folder / "policies", **policy) as own:
            yield Site(own, session_raw, point)


def test_what_both_allow_goes_out(site: Site) -> None:
    assert site.refusal("allowed") == ("", [])


def test_what_policy_refuses_is_refused_for_its_reasons(site: Site) -> None:
    assert site.refusal("denied") == ("denied", ["closed"])


def test_what_the_other_refuses_is_refused_and_on_record(site: Site) -> None:
    code, reasons = site.refusal("slow")
    assert (code, reasons) == ("denied", ["decision_point"])
    rows = site.gateway.running.rows(
        "audit", "query", "--where", "target = 'slow' AND kind = 'outcome'"
    )
    assert [(row["kind"], row["verdict"]) for row in rows] == [("outcome", "deny")]


def test_nothing_goes_out_while_it_is_away(site: Site) -> None:
    site.point.close()
    for _ in range(2):
        assert site.refusal("allowed")[0] == "policy_unavailable"
    assert site.refusal("denied") == ("denied", ["closed"])
