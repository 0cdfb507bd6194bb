"""How sign-in says no to a person: each refusal is a page of its own status."""

from typing import ClassVar

from gateway.errors import Refusal


class SignInRefused(Refusal):
    """A page or a form is refused; `public` is what the page says, `status` its HTTP status."""

    code = "sign_in_refused"
    status: ClassVar[int] = 400


class Ended(SignInRefused):
    """What the page belongs to has expired, was used already, or never was."""

    code = "ended"

    def __init__(self, public: str = "This page has expired, or was used already.") -> None:
        super().__init__(public)


class WrongBrowser(SignInRefused):
    """Another browser, or another person, began what this request wants to continue."""

    code = "wrong_browser"
    status = 403


class Forged(SignInRefused):
    """The form does not come from a page that we gave this browser."""

    code = "forged_form"
    status = 403

    def __init__(self) -> None:
        super().__init__("This form is not valid here any more.")


class NotSignedIn(SignInRefused):
    """Nobody is signed in in this browser."""

    code = "not_signed_in"
    status = 403

    def __init__(self) -> None:
        super().__init__("You are not signed in any more.")


class WrongCredentials(SignInRefused):
    """The user name or the password is wrong; which of them is not told."""

    code = "wrong_credentials"
    status = 403

    def __init__(self, *, detail: str) -> None:
        super().__init__("The user name or the password is wrong.", detail=detail)


class Unacceptable(SignInRefused):
    """What a person chose cannot be taken: the text says why, for them to choose anew."""

    code = "unacceptable"


class NoSuchCode(SignInRefused):
    """No device waits for the code that was typed."""

    code = "no_such_code"

    def __init__(self) -> None:
        super().__init__("No device waits for this code. Compare it with what your device shows.")


class Throttled(SignInRefused):
    """Too many attempts; after `wait_s` seconds there is another one."""

    code = "rate_limited"
    status = 429

    def __init__(self, wait_s: int) -> None:
        super().__init__("There were too many attempts. Wait a little, then try again.")
        self.wait_s = wait_s
