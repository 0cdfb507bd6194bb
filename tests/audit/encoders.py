"""Encoders of records, as a log has one."""

from gateway.audit.record import RecordEncoder, Terms
from gateway.audit.redaction import Level, Levels, Redaction
from gateway.flow.redaction import RecordScreen

KEY = b"k" * 32


def terms(
    levels: Levels | Redaction = Redaction.HASHED,
    *,
    keys: tuple[bytes, ...] = (KEY,),
    held: tuple[str, ...] = (),
) -> Terms:
    """Return the rules of a log with these levels; of one level, for everything."""
    if isinstance(levels, Redaction):
        levels = Levels(Level(redaction=levels))
    return Terms(keys=keys, levels=levels, screen=RecordScreen(held))


def encoder_of(
    levels: Levels | Redaction = Redaction.HASHED,
    *,
    log_id: str = "douane/test",
    keys: tuple[bytes, ...] = (KEY,),
    held: tuple[str, ...] = (),
) -> RecordEncoder:
    """Return the encoder of a log with these levels."""
    return RecordEncoder(log_id=log_id, terms=terms(levels, keys=keys, held=held))
