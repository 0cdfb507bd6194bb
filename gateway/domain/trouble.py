"""What goes wrong again and again, and is to be told once."""


class Trouble:
    """Why something that is tried again and again fails; nothing, while it does not."""

    def __init__(self) -> None:
        self._why = ""

    def is_new(self, why: str) -> bool:
        """Take `why` for the reason from now on, empty if there is none; say whether that is to be told.

        What is tried many times a second fails as often while a server is gone for an hour.
        """
        before, self._why = self._why, why
        return why not in ("", before)
