"""From windows to figures: medians over the rounds, how they compare, and what is promised."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.latency.load import Window

BUSIEST = 0.15
"""The share of the machine's CPU time that strangers may use before figures say too little."""

_LEAST_US = 1.0
"""Of latency that a proxy adds: less is measured only by chance, and nothing divides by it."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One target over so many connections: medians over the rounds, sums of what went wrong."""

    name: str
    connections: int
    calls: int
    calls_per_s: float
    p50_us: float
    p95_us: float
    p99_us: float
    cpu_us_per_call: float
    wrong: int
    errors: int
    children_cpu_us_per_call: float = 0.0
    upstream_cpu_us_per_call: float = 0.0

    @property
    def in_sessions(self) -> bool:
        """Whether it was called in the older era."""
        return self.what.endswith("-sessions")

    @property
    def what(self) -> str:
        """Its name without what its answers look like."""
        return self.name.partition("@")[0]

    @property
    def shape(self) -> str:
        """What its answers look like; empty for small ones."""
        return self.name.partition("@")[2]

    @property
    def key(self) -> str:
        return f"{self.name}.c{self.connections}"

    @property
    def figures(self) -> dict[str, float]:
        names = (
            *("calls_per_s", "p50_us", "p95_us", "p99_us", "cpu_us_per_call"),
            *("children_cpu_us_per_call", "upstream_cpu_us_per_call", "wrong", "errors"),
        )
        return {f"{self.key}.{name}": round(getattr(self, name), 1) for name in names}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row beside those of the same number of connections."""

    row: Row
    added_p50_us: float
    """Above no proxy at all; so everywhere."""
    added_p50_x_nginx: float
    calls_x_fastmcp: float
    """Beside FastMCP's fastest form in the same era."""
    p99_x_nginx: float
    added_p50_x_fsync: float

    @property
    def figures(self) -> dict[str, float]:
        names = ("added_p50_x_nginx", "calls_x_fastmcp", "p99_x_nginx", "added_p50_x_fsync")
        ratios = {f"{self.row.key}.{name}": round(getattr(self, name), 2) for name in names}
        return {f"{self.row.key}.added_p50_us": round(self.added_p50_us, 1), **ratios}


def row(name: str, connections: int, windows: Sequence[Window]) -> Row:
    """Put the rounds of one target together."""
    return Row(
        name=name,
        connections=connections,
        calls=sum(window.calls for window in windows),
        calls_per_s=median(window.calls / window.duration_s for window in windows),
        p50_us=median(window.p50_us for window in windows),
        p95_us=median(window.p95_us for window in windows),
        p99_us=median(window.p99_us for window in windows),
        cpu_us_per_call=_per_call(windows, "cpu_s"),
        children_cpu_us_per_call=_per_call(windows, "children_cpu_s"),
        upstream_cpu_us_per_call=_per_call(windows, "upstream_cpu_s"),
        wrong=sum(window.wrong for window in windows),
        errors=sum(window.errors for window in windows),
    )


def _per_call(windows: Sequence[Window], of: str) -> float:
    return float(median(getattr(one, of) * 1e6 / max(one.calls, 1) for one in windows))


def compare(rows: Sequence[Row], fsync_us: float) -> list[Comparison]:
    """Hold each of `rows`, of one number of connections and one shape of answers, against the others."""
    by_name = {row.what: row for row in rows}
    direct, nginx = by_name["direct"], by_name["nginx"]
    fastest = {
        sessions: max(
            (
                one.calls_per_s
                for one in rows
                if one.what.startswith("fastmcp") and one.in_sessions is sessions
            ),
            default=0.0,
        )
        for sessions in (False, True)
    }
    added_by_nginx = max(nginx.p50_us - direct.p50_us, _LEAST_US)
    return [
        Comparison(
            row=row,
            added_p50_us=row.p50_us - direct.p50_us,
            added_p50_x_nginx=(row.p50_us - direct.p50_us) / added_by_nginx,
            calls_x_fastmcp=row.calls_per_s / max(fastest[row.in_sessions], 1.0),
            p99_x_nginx=row.p99_us / max(nginx.p99_us, 1.0),
            added_p50_x_fsync=(row.p50_us - direct.p50_us) / fsync_us,
        )
        for row in rows
    ]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A figure, and what it is at most or at least."""

    figure: str
    most: float = float("inf")
    least: float = 0.0

    @property
    def bound(self) -> str:
        return f"at least {self.least:g}" if self.least else f"at most {self.most:g}"

    def broken(self, figures: Mapping[str, float]) -> str:
        """Say how `figures` do not keep it; empty if they do."""
        found = figures.get(self.figure)
        if found is None:
            return f"{self.figure}: not measured, promised {self.bound}"
        if not self.least <= found <= self.most:
            return f"{self.figure}: {found:g}, promised {self.bound}"
        return ""


PROMISES = (
    Promise(figure="process.c1.added_p50_x_nginx", most=10),
    Promise(figure="process.c16.calls_x_fastmcp", least=6),
    Promise(figure="power.c16.calls_x_fastmcp", least=3),
)


def judge(figures: Mapping[str, float], foreign_cpu: float) -> list[str]:
    """Return what is promised and not kept; a machine that is too busy shows nothing either way."""
    if foreign_cpu > BUSIEST:
        used = f"other processes used {foreign_cpu:.0%} of the CPU time"
        return [f"nothing is judged: {used}, and above {BUSIEST:.0%} figures say too little"]
    return [broken for promise in PROMISES if (broken := promise.broken(figures))]


def correctness(rows: Iterable[Row]) -> list[str]:
    """Return which rows have answers that were wrong or did not come, or none at all."""
    return [
        f"{row.key}: {row.wrong} wrong answers and {row.errors} errors in {row.calls} calls"
        for row in rows
        if row.wrong or row.errors or not row.calls
    ]
