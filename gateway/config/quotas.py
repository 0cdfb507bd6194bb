"""How much of what may be used in which time: `limits.quotas`."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gateway.config.section import Section, Words
from gateway.domain.labels import Effect
from gateway.domain.quotas import MILLIONTHS, Count, Each, Per, Quota

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
_MOST = 10**12


class QuotaSection(Section):
    name: _Name
    """By which people, refusals and policies know it."""
    count: Literal["calls", "bytes", "cost", "under_way"] = "calls"
    most: float = Field(ge=0, le=_MOST)
    """Calls, bytes, units of `price`, or calls at the same time."""
    per: Literal["minute", "hour", "day", "month"] | None = None
    """Of the calendar, in UTC; what is under way has none."""
    each: tuple[Each, ...] = ()
    """What has a count of its own; nothing: all that it is about have one together."""
    people: Words = ()
    groups: Words = ()
    clients: Words = ()
    servers: Words = ()
    tools: Words = ()
    effects: tuple[Effect, ...] = ()

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if (self.per is None) is not (self.count == "under_way"):
            raise ValueError(
                "`per` is `minute`, `hour`, `day` or `month`, and is left out for `count: under_way`"
            )
        if self.count != "cost" and not self.most.is_integer():
            raise ValueError(f"`most` is a whole number of {self.count}")
        if len(set(self.each)) != len(self.each):
            raise ValueError("`each` names the same twice")
        return self

    @property
    def value(self) -> Quota:
        """The domain's form."""
        count = Count(self.count)
        return Quota(
            name=self.name,
            count=count,
            most=round(self.most * MILLIONTHS) if count is Count.COST else int(self.most),
            per=None if self.per is None else Per(self.per),
            each=self.each,
            people=frozenset(self.people),
            groups=frozenset(self.groups),
            clients=frozenset(self.clients),
            servers=frozenset(self.servers),
            tools=frozenset(self.tools),
            effects=frozenset(self.effects),
        )


def _told_apart(quotas: tuple[QuotaSection, ...]) -> tuple[QuotaSection, ...]:
    names = [quota.name for quota in quotas]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two quotas have the name `{min(twice)}`; give each its own")
    return quotas


QuotaSections = Annotated[tuple[QuotaSection, ...], AfterValidator(_told_apart)]
Price = Annotated[float, Field(ge=0, le=1_000_000)]
