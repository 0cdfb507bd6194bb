"""The section `approvals` of `douane.yaml`: what people are asked, and how often at most."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Section, written
from gateway.config.values import Duration
from gateway.domain.approvals import ApprovalRules


class Approvals(Section):
    expire: Duration = written("1h")
    """For how long a question waits for an answer, and then for how long a yes may be used."""
    denial_holds: Duration = written("1h")
    """For how long a no stands before the same call may be asked about again."""
    most_waiting: Annotated[int, Field(ge=1, le=1000)] = 20
    """Questions of one principal that wait at once; a call beyond them files none."""
    most_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 60
    """New questions of one principal in an hour."""
    keep: Duration = written("30d")
    """For how long a question is kept after it has run out."""
    standing: Duration = written("90d")
    """For how long an answer stands that a person gives for good."""

    @property
    def value(self) -> ApprovalRules:
        """The domain's form."""
        return ApprovalRules(
            expire_s=self.expire,
            denial_holds_s=self.denial_holds,
            most_waiting=self.most_waiting,
            most_per_hour=self.most_per_hour,
            keep_s=self.keep,
            standing_s=self.standing,
        )
