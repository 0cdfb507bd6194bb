"""The people whom programs wait for."""

from gateway.domain.approvals import Span
from tests.builtin.front import Site


async def answer(site: Site, *, allow: bool) -> None:
    """Answer the one question that waits."""
    kept = site.house.approvals.all(now=site.house.now)
    (waiting,) = [one for one in kept if one.state.value == "waiting"]
    await site.house.approvals.answer(
        waiting.request.id,
        allow=allow,
        span=Span.ONCE,
        by="user:bob",
        by_user_id="u_bob",
        note="",
        now=site.house.now,
    )
