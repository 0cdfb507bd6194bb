"""Cursors that say by themselves where a list goes on, so that nothing has to be remembered."""

import base64
import json
from typing import Any, TypeVar

from gateway.wire import jsontext

Place = TypeVar("Place")


def cursor_of(place: Any) -> str:
    """Return `place`, a JSON value, as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def place_of(cursor: Any, kind: type[Place]) -> Place:
    """Return the place that `cursor` names.

    Raises:
        ValueError: It is no cursor of ours, or of another list.

    """
    try:
        # A name, or one text for each server: what else JSON can say is none of ours, and may not be written.
        place = jsontext.read_exact(base64.urlsafe_b64decode(cursor), 1)
    except (TypeError, ValueError) as error:
        raise ValueError("no cursor of ours") from error
    if not isinstance(place, kind):
        raise ValueError("a cursor of another list")  # noqa: TRY004 - a bad text, not a bad type
    return place
