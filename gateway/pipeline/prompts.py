"""What a prompt says when it is used: its definition was approved, its text was not."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import AccessRequest
from gateway.domain.document import Document
from gateway.errors import Denied, PinDrift, UpstreamFailed
from gateway.pins.findings import findings_of
from gateway.ports import PinStore

_ABOUT_THE_ANSWER = ("_meta", "ttlMs", "cacheScope", "resultType")
"""Members of a result that are no part of what the prompt says."""
_MOST_TOLD = 20
"""Hints that are recorded of one text; a server could make a record of any length."""


class Prompts:
    """Holds a prompt to what its definition shows, and one without arguments to its first text."""

    def __init__(self, *, pins: PinStore, refuse_results: bool = False) -> None:
        """`refuse_results`: whether a suspicious text is withheld; if not, nobody vouches for it."""
        self._pins = pins
        self._refuse_results = refuse_results

    async def problems(self, access: AccessRequest, result: Mapping[str, Any]) -> tuple[str, ...]:
        """Return why a prompt's text is not what its approval covers.

        What a prompt without arguments says is always the same: its first text after the approval
        is kept, durably.

        Raises:
            PinDrift: Such a text has changed and shows signs of an attack.
            Denied: There are problems, and such results are refused.

        """
        said = {name: result[name] for name in result if name not in _ABOUT_THE_ANSWER}
        known = {hint.code for hint in findings_of(access.pinned.manifest.definition.content)}
        hints = [hint for hint in findings_of(said) if hint.hard and hint.code not in known]
        changed = await self._has_changed(access, said)
        problems = [f"{hint.code} at {hint.path}" for hint in hints[:_MOST_TOLD]]
        if changed:
            problems.append("$: is not what it was when it was first used")
        if changed and hints:
            raise PinDrift(
                "this prompt says something else since it was approved", detail="; ".join(problems)
            )
        if problems and self._refuse_results:
            raise Denied(
                "the prompt's text is not what its approval covers",
                reasons=[("invalid_result", problem) for problem in problems],
            )
        return tuple(problems)

    async def _has_changed(self, access: AccessRequest, said: dict[str, Any]) -> bool:
        if access.pinned.manifest.definition.content.get("arguments") or "messages" not in said:
            return False
        try:
            digest = str(Document.of(said).digest)
        except ValueError as error:
            raise UpstreamFailed("the prompt's text cannot be read", detail=str(error)) from error
        pin = access.pinned.pin
        if not pin.body_digest:
            pin = await self._pins.keep_body(pin.target, pin.profile, digest)
        return pin.body_digest != digest
