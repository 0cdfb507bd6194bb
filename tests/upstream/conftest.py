"""The real upstream servers that this room's tests talk to."""

from tests.servers.fixtures import everything, notes, own_notes

__all__ = ["everything", "notes", "own_notes"]
