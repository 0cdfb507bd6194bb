"""How the log is kept, by the configuration."""

from gateway.config import Config
from gateway.storage.keeping import Keeping
from gateway.storage.spooling import SpoolSettings
from gateway.storage.writer import Signing

_SPOOL = "spool"
_SPOOL_BYTES = 64 << 20


def keeping_of(config: Config) -> Keeping:
    """Return when the log is signed, and where records go that it does not take."""
    audit = config.audit
    signing = Signing(every_s=audit.checkpoints.every, records=audit.checkpoints.records)
    if audit.on_failure != "spool":
        return Keeping(signing=signing)
    section = audit.spool
    path = config.data_dir / _SPOOL
    if section is not None and section.path is not None:
        path = section.path
    capacity = _SPOOL_BYTES if section is None else section.bytes
    return Keeping(signing=signing, spool=SpoolSettings(path=path, capacity=capacity))
