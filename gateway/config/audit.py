"""What is written down, how durably, and where it goes from there."""

from typing import Annotated, Literal

from gateway.config.section import Section, written
from gateway.config.values import Duration, planned


class Audit(Section):
    durability: Literal["power", "process"] = "power"
    """`power`: a record survives a power cut; `process`: it survives the gateway's end only."""
    deadline: Duration = written("2s")
    on_failure: Annotated[
        Literal["refuse"],
        planned("continue", "allow", "warn", "ignore", instead="use `refuse`"),
    ] = "refuse"
    redaction: Literal["hashed", "clear"] = "hashed"
    """How much of a call's arguments is written down; results never are."""
