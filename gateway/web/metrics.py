"""All that is counted, and how things stand: what Prometheus reads."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from prometheus_client import Counter, Gauge, Histogram, generate_latest

from gateway.domain.approvals import ApprovalState
from gateway.domain.tools import UpstreamId
from gateway.web.call_metrics import SECONDS, CallMetrics
from gateway.web.registry import Registry


class Metrics(CallMetrics):
    """Every series of the gateway, in a registry of its own; served on the admin listener."""

    def __init__(self) -> None:
        super().__init__()
        self._tools: Registry | None = None
        self._owed: Callable[[], Mapping[str, tuple[int, int]]] = dict
        self.registry_tools = Gauge(
            "douane_registry_tools",
            "Tools that are approved.",
            ["server"],
            registry=self._registry,
        )
        self.registry_tokens = Gauge(
            "douane_registry_tokens",
            "What the definitions of these tools cost a model to read: bytes of JSON / 4.",
            ["server"],
            registry=self._registry,
        )
        self.pins = Gauge(
            "douane_pins",
            "Definitions that servers show or showed, one a family of revisions, by status.",
            ["server", "status"],
            registry=self._registry,
        )
        self.crawls = Histogram(
            "douane_crawl_duration_seconds",
            "How long the reading of all lists of a server took, by result (ok or failed).",
            ["server", "result"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.reloads = Counter(
            "douane_policy_reloads",
            "Policy changes, by result.",
            ["result"],
            registry=self._registry,
        )
        self.taken_up = Counter(
            "douane_config_reloads",
            "Readings of the configuration while at work, by result.",
            ["result"],
            registry=self._registry,
        )
        self.stopped = Gauge(
            "douane_policy_stopped",
            "1 while an operator has stopped all calls.",
            registry=self._registry,
        )
        self.empty = Gauge(
            "douane_policy_empty",
            "1 while the policy in force says nothing about any decision: all calls are refused.",
            registry=self._registry,
        )
        self.candidates = Counter(
            "douane_policy_candidate",
            "Answers of the candidate policy, by verdict and by what the policy in force said.",
            ["verdict", "live"],
            registry=self._registry,
        )
        self.questions = Gauge(
            "douane_approvals",
            "Questions to people that are kept, by state; `waiting` is what nobody answered yet.",
            ["state"],
            registry=self._registry,
        )
        self.failures = Gauge(
            "douane_upstream_failures",
            "Failures of a server in a row, up to now; at limits.upstream_failures it is left alone.",
            ["server"],
            registry=self._registry,
        )
        self.behind = Gauge(
            "douane_audit_follower_lag_records",
            "Records that have not arrived yet where the log is exported to, or read from it.",
            ["follower"],
            registry=self._registry,
        )
        self.not_taken = Gauge(
            "douane_audit_follower_failing",
            "1 while a follower of the log does not take records, which wait for it.",
            ["follower"],
            registry=self._registry,
        )
        self.lag = Gauge(
            "douane_audit_lag_seconds",
            "For how long the oldest record waits that is durable and not in the log yet, or nobody could say.",
            registry=self._registry,
        )
        self.spooled = Gauge(
            "douane_audit_spooled_records",
            "Records that the audit log did not take, and that wait in the spool.",
            registry=self._registry,
        )
        self.quotas = Gauge(
            "douane_quota_fullest_ratio",
            "What is used of a quota, of all that it counts apart where the most is: 1 is all of it.",
            ["quota"],
            registry=self._registry,
        )
        self.owed = Gauge(
            "douane_plane_debts",
            "Calls that a plane was allowed and has not reported.",
            ["plane"],
            registry=self._registry,
        )
        self.owed_bytes = Gauge(
            "douane_plane_debts_bytes",
            "What it takes to keep these calls; a plane whose share is full is refused.",
            ["plane"],
            registry=self._registry,
        )
        self.by_meaning = Gauge(
            "douane_search_tools",
            "Approved tools that are indexed (of: all), and that search by meaning finds (of: meaning).",
            ["of"],
            registry=self._registry,
        )
        self.free = Gauge(
            "douane_audit_free_bytes",
            "Space that is left on the disk of the data directory.",
            registry=self._registry,
        )
        self.deviations = Counter(
            "douane_deviations",
            "Deviations from what is usual for somebody that were recorded.",
            ["kind"],
            registry=self._registry,
        )
        self.deliveries = Counter(
            "douane_webhook_deliveries",
            "Attempts to tell a webhook of something, and what was not told to it, by result.",
            ["webhook", "result"],
            registry=self._registry,
        )
        self.rejected = Counter(
            "douane_audit_export_rejected",
            "Records that a collector took a batch without; it is sent none of them again.",
            ["export"],
            registry=self._registry,
        )
        self.ready = Gauge("douane_ready", "1 while /readyz answers 200.", registry=self._registry)

    def count_questions(self, kept: Callable[[], Mapping[ApprovalState, int]]) -> None:
        """Have the gauge of questions say what `kept` gives, whenever somebody looks."""
        for state in ApprovalState:
            self.questions.labels(state.value).set_function(partial(_count, kept, state))

    def count_failures(self, counts: Mapping[UpstreamId, Callable[[], int]]) -> None:
        """Have the gauge of failures say for each server what its count gives; of no others."""
        self.failures.clear()
        for server, count in counts.items():
            self.failures.labels(server).set_function(count)

    def count_keeping(self, spooled: Callable[[], int], free: Callable[[], int]) -> None:
        """Have the gauges of the spool and of the disk say what these give."""
        self.spooled.set_function(spooled)
        self.free.set_function(free)

    def count_quotas(self, fullest: Mapping[str, Callable[[], float]]) -> None:
        """Have the gauge of quotas say what these give for each, whenever somebody looks."""
        for name, share in fullest.items():
            self.quotas.labels(name).set_function(share)

    def count_owed(self, owed: Callable[[], Mapping[str, tuple[int, int]]]) -> None:
        """Have the gauges of planes say what this gives of each, whenever somebody looks: calls, bytes."""
        self._owed = owed

    def count_placed(self, placed: Callable[[], tuple[int, int] | None]) -> None:
        """Have the gauge of search say what this gives, whenever somebody looks; nothing, without a model."""
        self.by_meaning.labels("meaning").set_function(lambda: (placed() or (0, 0))[0])
        self.by_meaning.labels("all").set_function(lambda: (placed() or (0, 0))[1])

    def count_followers(
        self,
        behind: Mapping[str, Callable[[], float]],
        failing: Mapping[str, Callable[[], float]],
    ) -> None:
        """Have the gauges of followers say what these give for each, whenever somebody looks."""
        for gauge, counts in ((self.behind, behind), (self.not_taken, failing)):
            gauge.clear()
            for follower, count in counts.items():
                gauge.labels(follower).set_function(count)

    def count_lag(self, lag_s: Callable[[], float]) -> None:
        """Have the gauge of what is not in the log yet say what this gives, whenever somebody looks."""
        self.lag.set_function(lag_s)

    def tell_tools_apart(self, registry: Registry) -> None:
        """Have approved tools counted by name from now on, and the size of all of them told."""
        self._tools = self._approved = registry

    def crawled(self, server: UpstreamId, seconds: float, *, failed: bool) -> None:
        """Count one look at all lists of a server."""
        self.crawls.labels(server, "failed" if failed else "ok").observe(seconds)

    def listed(self, method: str, servers: Collection[UpstreamId]) -> None:
        """Count a list at `/mcp` for each server of which something stands in it."""
        for server in servers:
            self.requests.labels(server, method, "ok").inc()

    def page(self) -> bytes:
        """Return every series in Prometheus' text format."""
        self.add_up()
        if self._tools is not None:
            self.registry_tools.clear()
            self.registry_tokens.clear()
            for server, size in self._tools.sizes().items():
                self.registry_tools.labels(server).set(size.tools)
                self.registry_tokens.labels(server).set(size.cost)
            self.pins.clear()
            for (server, status), count in self._tools.states().items():
                self.pins.labels(server, status.value).set(count)
        self.owed.clear()
        self.owed_bytes.clear()
        for plane, (calls, octets) in self._owed().items():
            self.owed.labels(plane).set(calls)
            self.owed_bytes.labels(plane).set(octets)
        return generate_latest(self._registry)


def _count(kept: Callable[[], Mapping[ApprovalState, int]], state: ApprovalState) -> float:
    return float(kept().get(state, 0))
