"""Where the record and its checkpoints go from here, by the configuration."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import orjson

from gateway.admin.exporting import ExportDesk, Following
from gateway.admin.journal import Journal
from gateway.audit.forms import Form, Stored, Written, written_as
from gateway.config import Config
from gateway.config.exports import Export
from gateway.config.values import SecretRef
from gateway.domain._value import value
from gateway.export.collector import Collector, CollectorSink
from gateway.export.file import FileSink
from gateway.ports.following import Sink
from gateway.storage.baselines import FOLLOWER
from gateway.web.metrics import Metrics
from gateway.wiring.alerts import follower_of
from gateway.wiring.foundation import now
from gateway.wiring.posting import poster_to
from gateway.wiring.stores import Stores
from gateway.wiring.witnessing import follower_of as witness_of

_CHECKPOINT_S = 10.0
_CHECKPOINTS_BYTES = 100 << 20
EXPORT = "export "
"""How the cursors of exports begin."""
_TO_FILE, _TO_URL = "checkpoints file", "checkpoints url"


@value
class Outlet:
    """One follower to be, under its cursor's name."""

    name: str
    sink: Sink
    page: int
    of_checkpoints: bool = False


def outlets_of(config: Config, metrics: Metrics) -> Iterator[Outlet]:
    """Yield who gets the records, and the checkpoints, of a log."""
    for name, one in config.audit.export.items():
        yield Outlet(
            name=f"{EXPORT}{name}", sink=_export(config, name, one, metrics), page=one.batch
        )
    kept = config.audit.checkpoints
    if kept.file is not None:
        sink = FileSink(kept.file, _LINES, rotate_bytes=_CHECKPOINTS_BYTES)
        yield Outlet(name=_TO_FILE, sink=sink, page=100, of_checkpoints=True)
    if kept.url is not None:
        poster = _collector(
            config,
            "checkpoints",
            url=kept.url,
            headers=kept.headers,
            written=_NOTE,
            whole_s=_CHECKPOINT_S,
            metrics=metrics,
        )
        yield Outlet(name=_TO_URL, sink=poster, page=1, of_checkpoints=True)


def configured_in(config: Config) -> frozenset[str]:
    """Return the names of those who follow the record or its checkpoints."""
    kept = config.audit.checkpoints
    notes = {_TO_FILE: kept.file, _TO_URL: kept.url}
    exports = {f"{EXPORT}{name}" for name in config.audit.export}
    told = {follower_of(name) for name in config.alerts.webhooks}
    learns = {FOLLOWER} if config.alerts.baselines == "learn" else set()
    given = {name for name, place in notes.items() if place is not None}
    asked = {witness_of(name) for name in kept.witnesses}
    return frozenset(exports | told | learns | given | asked)


@contextmanager
def export_desk(
    current: Callable[[], Config],
    store: Stores,
    journal: Journal,
    followers: Callable[[], Sequence[Following]],
) -> Iterator[ExportDesk]:
    """Open what people do with the record that leaves; `followers` are those at work."""
    with closing(store.log.bundles()) as reader:
        yield ExportDesk(
            reader,
            store.cursors,
            journal,
            key=store.verifier,
            sign=store.sign,
            configured=lambda: configured_in(current()),
            at_work=followers,
            hashes_of=store.hashes_of,
            clock=now,
        )


def _export(config: Config, name: str, one: Export, metrics: Metrics) -> Sink:
    written = written_as(Form(one.format), version=version("douane"))
    if one.url is None:
        return FileSink(one.file or Path(), written, rotate_bytes=one.rotate)
    return _collector(
        config,
        name,
        url=one.url,
        headers=one.headers,
        written=written,
        whole_s=one.timeout,
        metrics=metrics,
    )


def _collector(
    config: Config,
    name: str,
    *,
    url: str,
    headers: Mapping[str, SecretRef],
    written: Written,
    whole_s: float,
    metrics: Metrics,
) -> CollectorSink:
    return CollectorSink(
        name,
        Collector(
            url=url,
            headers={name: ref.resolve(os.environ).reveal() for name, ref in headers.items()},
        ),
        written,
        poster=poster_to(url, config, whole_s=whole_s),
        rejected=partial(_count, metrics, name),
    )


def _count(metrics: Metrics, name: str, rejected: int) -> None:
    metrics.rejected.labels(name).inc(rejected)


def _as_lines(notes: Sequence[Stored]) -> bytes:
    return b"".join(orjson.dumps({"checkpoint": note.body.decode()}) + b"\n" for note in notes)


def _as_is(notes: Sequence[Stored]) -> bytes:
    return b"".join(note.body for note in notes)


_LINES = Written(media="application/x-ndjson", of=_as_lines)
"""Checkpoints as an export holds them."""
_NOTE = Written(media="text/plain; charset=utf-8", of=_as_is)
