"""What is written down, how durably, and where it goes from there."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, field_validator

from gateway.audit.redaction import Level, Redaction
from gateway.config.exports import Exports
from gateway.config.keeping import Checkpoints, Retention, SpoolSection
from gateway.config.section import Section, written
from gateway.config.values import Duration, planned
from gateway.domain.paths import parse_path


def _level(content: Any) -> Any:
    if content == "clear":
        raise ValueError("is not a level; write `full`")
    return content


def _clear_path(text: str) -> str:
    try:
        parse_path(text)
    except ValueError as error:
        raise ValueError(f"{error}; write a path such as `$.project`") from None
    return text


RedactionLevel = Annotated[Literal["none", "hashed", "selected", "full"], BeforeValidator(_level)]
ClearPath = Annotated[str, AfterValidator(_clear_path)]


class AuditOfTool(Section):
    """How the arguments of one server's tools, or of one tool, are written down."""

    redaction: RedactionLevel | None = None
    """`None`: `selected` if `clear` names something, or else what holds for the whole."""
    clear: tuple[ClearPath, ...] = ()
    """Of `selected`: paths of arguments that are written down as they are."""

    @field_validator("clear")
    @classmethod
    def _of_selected(cls, clear: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if clear and info.data.get("redaction") not in {None, "selected"}:
            raise ValueError("is for `redaction: selected` only")
        return clear

    @property
    def level(self) -> Level | None:
        """The rules' form; `None` where nothing is said."""
        if self.redaction is None and not self.clear:
            return None
        redaction = Redaction(self.redaction or "selected")
        return Level(redaction=redaction, clear=tuple(map(parse_path, self.clear)))


class Audit(Section):
    durability: Literal["power", "process"] = "power"
    """`power`: a record survives a power cut; `process`: it survives the gateway's end only."""
    deadline: Duration = written("2s")
    on_failure: Annotated[
        Literal["refuse", "spool"],
        planned("continue", "allow", "warn", "ignore", instead="use `refuse` or `spool`"),
    ] = "refuse"
    spool: SpoolSection | None = None
    checkpoints: Checkpoints = written({})
    heartbeat: Duration = written("60s")
    """After how long without a record one is written, so that a missing end shows."""
    export: Exports = written({})
    retention: Retention | None = None
    """`None`: everything is kept for ever."""
    redaction: RedactionLevel = "hashed"
    """How much of a call's arguments is written down; results never are."""

    @field_validator("spool")
    @classmethod
    def _where_it_is_used(
        cls, spool: SpoolSection | None, info: ValidationInfo
    ) -> SpoolSection | None:
        if spool is not None and info.data.get("on_failure") != "spool":
            raise ValueError("is for `on_failure: spool` only")
        return spool
