"""What a prompt says when it is used: its definition was approved, its text was not."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.domain.calls import AccessRequest
from gateway.domain.document import Document
from gateway.errors import Denied, PinDrift, UpstreamFailed
from gateway.pins.findings import Finding, findings_of
from gateway.ports import PinStore
from gateway.turns import finished

_ABOUT_THE_ANSWER = ("_meta", "ttlMs", "cacheScope", "resultType")
"""Members of a result that are no part of what the prompt says."""
_MOST_TOLD = 20
"""Hints that are recorded of one text; a server could make a record of any length."""
_PLACE = re.compile(
    r"\$(?:\.(?:content|description|messages|name|resource|role|text|title|type|uri)|\[[0-9]+\])*"
)
"""A path of nothing but names of the protocol's; any other name is the server's words."""


class Prompts:
    """Holds a prompt to what its definition shows, and one without arguments to its first text."""

    def __init__(self, *, pins: PinStore, refuse_results: bool = False) -> None:
        """`refuse_results`: whether a suspicious text is withheld; if not, nobody vouches for it."""
        self._pins = pins
        self._refuse_results = refuse_results

    async def problems(
        self, access: AccessRequest, result: Mapping[str, Any], *, who: str, nodes: int
    ) -> tuple[str, ...]:
        """Return why a prompt's text is not what its approval covers.

        It is of `nodes`, and looked through in the turn of `who` if that is much. What a prompt without arguments says is always the same: its first text after the approval
        is kept, durably.

        Raises:
            PinDrift: Such a text has changed and shows signs of an attack.
            Denied: There are problems, and such results are refused.

        """
        shown = access.pinned.manifest.definition.content
        hints, digest = await finished(who, nodes, _read, shown, result)
        changed = digest is not None and await self._has_changed(access, digest)
        problems = [f"{hint.code} at {_place(hint.path)}" for hint in hints[:_MOST_TOLD]]
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

    async def _has_changed(self, access: AccessRequest, digest: str) -> bool:
        pin = access.pinned.pin
        if not pin.body_digest:
            pin = await self._pins.keep_body(pin.target, pin.profile, digest)
        return pin.body_digest != digest


def _place(path: str) -> str:
    """Return `path` for a text that reaches whoever may not see what stands there."""
    return path if _PLACE.fullmatch(path) else "a member that the protocol does not know"


def _read(shown: dict[str, Any], result: Mapping[str, Any]) -> tuple[Sequence[Finding], str | None]:
    """Return what in `result` looks like an attack and in the definition `shown` does not.

    And the digest of its text, if the same has to be said every time.

    Raises:
        UpstreamFailed: It has none.

    """
    said = {name: result[name] for name in result if name not in _ABOUT_THE_ANSWER}
    known = {hint.code for hint in findings_of(shown)}
    hints = [hint for hint in findings_of(said) if hint.hard and hint.code not in known]
    if shown.get("arguments") or "messages" not in said:
        return hints, None
    try:
        return hints, str(Document.of(said).digest)
    except ValueError as error:
        raise UpstreamFailed("the prompt's text cannot be read", detail=str(error)) from error
