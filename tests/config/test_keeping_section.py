"""How the record is kept is read as it is written; what contradicts itself is refused."""

from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.errors import ConfigError
from gateway.storage.keeping import Keeping
from gateway.storage.spooling import SpoolSettings
from gateway.storage.writer import EVERY_SECOND, Signing
from gateway.wiring.foundation import keeping_of

CONFIG = """\
version: 1
public_url: http://127.0.0.1:8080
data_dir: ./data
policy: {path: ./policies}
"""


def read(folder: Path, audit: str) -> Config:
    path = folder / "douane.yaml"
    path.write_text(f"{CONFIG}audit: {audit}\n")
    return load(path, {})


def test_by_default_the_log_refuses_and_is_signed_every_second(tmp_path: Path) -> None:
    config = read(tmp_path, "{}")
    assert keeping_of(config) == Keeping(signing=EVERY_SECOND, spool=None)
    assert (config.audit.heartbeat, config.audit.retention) == (60.0, None)


def test_what_is_written_is_in_force(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "{on_failure: spool, spool: {path: ./elsewhere, bytes: 65536},"
        " checkpoints: {every: 5s, records: 10}, retention: {keep: 400d, archive: ./old}}",
    )
    assert keeping_of(config) == Keeping(
        signing=Signing(every_s=5.0, records=10),
        spool=SpoolSettings(path=tmp_path / "elsewhere", capacity=65536),
    )
    assert config.audit.retention is not None
    assert config.audit.retention.keep == 400 * 86_400
    assert config.audit.retention.archive == tmp_path / "old"


def test_without_more_the_spool_is_in_the_data_directory(tmp_path: Path) -> None:
    config = read(tmp_path, "{on_failure: spool}")
    assert keeping_of(config).spool == SpoolSettings(
        path=tmp_path / "data" / "spool", capacity=64 << 20
    )
    given = read(tmp_path, "{on_failure: spool, spool: {bytes: 131072}}")
    assert keeping_of(given).spool == SpoolSettings(
        path=tmp_path / "data" / "spool", capacity=131072
    )


@pytest.mark.parametrize(
    ("audit", "says"),
    [
        ("{spool: {bytes: 65536}}", "is for `on_failure: spool` only"),
        ("{on_failure: spool, spool: {bytes: 1000}}", "65536"),
        ("{on_failure: allow}", "use `refuse` or `spool`"),
        ("{on_failure: continue}", "use `refuse` or `spool`"),
        ("{checkpoints: {records: 0}}", "1"),
        ("{heartbeat: 0s}", "duration"),
        ("{retention: {keep: 400}}", "duration"),
    ],
    ids=["no spool", "too small", "allow", "continue", "never", "no time", "no unit"],
)
def test_what_cannot_be_kept_to_is_refused(tmp_path: Path, audit: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, audit)
    assert says in refused.value.detail
