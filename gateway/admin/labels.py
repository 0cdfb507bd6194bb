"""Which labels the definitions of tools suggest, for people who decide what to write."""

from collections.abc import Callable, Collection, Iterator

from gateway.admin.person import EVERY_ROLE, Person, beside
from gateway.admin.rows import Row, Rows
from gateway.domain.tools import Kind, Pin, UpstreamId
from gateway.errors import NotFound
from gateway.flow.suggest import Suggestion, joined, suggest
from gateway.ports import PinStore

Labelled = Callable[[UpstreamId], Collection[str]]
"""The names of the tools of a server that the configuration labels."""


class LabelDesk:
    def __init__(self, pins: PinStore, labelled: Labelled) -> None:
        self._pins = pins
        self._labelled = labelled

    async def suggest(self, person: Person, *, server: str, everything: bool = False) -> Rows:
        """Return one row a tool of `server` that has no labels, by name: what they could be.

        They come from the approved definition, else from the one that waits (`definition`). What
        stands in `lowers` trusts the tool more than no label does. With `everything`, tools that
        have labels are among them.

        Raises:
            NotFound: No tool of this server has been seen.

        """
        person.need(*EVERY_ROLE)
        return await beside(person, self._suggested, server, everything)

    def _suggested(self, server: str, everything: bool) -> Rows:
        own = self._pins.all(UpstreamId(server))
        tools = _by_name(pin for pin in own if pin.target.kind is Kind.TOOL)
        if not tools:
            raise NotFound("no tool of this server was seen; `douane servers list` lists servers")
        labelled = self._labelled(UpstreamId(server))
        return [
            {
                "server": server,
                "name": name,
                "definition": "approved" if all(pin.approved for pin in pins) else "observed",
                "labelled": name in labelled,
                **words_of_suggestion(suggestion_for_pins(pins)),
            }
            for name, pins in sorted(tools.items())
            if everything or name not in labelled
        ]


def _by_name(pins: Iterator[Pin]) -> dict[str, list[Pin]]:
    found: dict[str, list[Pin]] = {}
    for pin in pins:
        found.setdefault(pin.target.name, []).append(pin)
    return found


def suggestion_for_pins(pins: Collection[Pin]) -> Suggestion:
    """Return what suits all `pins` of one tool, of which there is one a profile."""
    return joined(_suggestion(pin) for pin in pins)


def _suggestion(pin: Pin) -> Suggestion:
    shown = (pin.approved or pin.observed).definition.content
    return suggest(pin.target.server, {pin.target.name: shown})[pin.target.name]


def words_of_suggestion(suggestion: Suggestion) -> Row:
    """Return the documented members of a suggestion; absent is `null` or nothing."""
    return {
        "effect": None if suggestion.effect is None else suggestion.effect.value,
        "destination": list(suggestion.destination),
        "payload": list(suggestion.payload),
        "typed": list(suggestion.typed),
        "result": None if suggestion.result is None else suggestion.result.words,
        "lowers": list(suggestion.lowers),
        "because": list(suggestion.because),
    }
