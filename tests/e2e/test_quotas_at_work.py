"""A quota of the configuration holds at every endpoint and over restarts, and its use can be told."""

from pathlib import Path

from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.test_what_operators_see import series
from tests.running import ALL

# Of a month: no day ends while the test runs.
FEW = {"name": "few", "servers": ["raw"], "tools": ["allowed"], "most": 2, "per": "month"}
LIMITS = {"calls_per_minute": 100_000, "quotas": [{**FEW, "each": ["client"]}]}


def test_so_many_calls_pass_wherever_they_come_in(tmp_path: Path, raw: Raw, policies: Path) -> None:
    with own_gateway(tmp_path, raw, policies, limits=LIMITS) as gateway:
        poster, everywhere = Poster(gateway, "raw"), Poster(gateway, ALL)
        assert poster.call("allowed").refusal is None
        (row,) = gateway.running.rows("usage")
        assert (row["quota"], row["used"], row["most"]) == ("few", 1, 2)
        assert poster.call("allowed").refusal is None
        refused = poster.call("allowed")
        assert refused.refusal == "rate_limited"
        assert refused.headers["ratelimit-policy"].startswith('"few";q=2;w=')
        assert refused.headers["ratelimit"].startswith('"few";r=0;t=')
        assert poster.call("amounts").refusal is None
        # Another client, or another endpoint's token of the same one: counted by who it is.
        while (seen := everywhere.call("raw__allowed")).refusal is None:
            pass
        assert seen.refusal == "rate_limited"
        assert seen.headers["ratelimit"].startswith('"few";r=0;t=')
        assert series(gateway)['douane_quota_fullest_ratio{quota="few"}'] == 1
        assert "few" in gateway.running.douane("usage", "few").stdout
    with own_gateway(tmp_path, raw, policies, limits=LIMITS) as gateway:
        assert Poster(gateway, "raw").call("allowed").refusal == "rate_limited"
