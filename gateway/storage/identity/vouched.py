"""The people whom somebody vouches for now: those of former ways to sign in are nobody."""

from gateway.domain.identity import User
from gateway.ports.identity import UserStore


class VouchedUsers:
    """A `UserStore` over another one, in which people of other issuers are not found.

    They stay on file and in `all`: whoever goes back to a former way finds everybody again.
    """

    def __init__(self, everybody: UserStore, issuers: frozenset[str]) -> None:
        self._everybody = everybody
        self._issuers = issuers
        self.all = everybody.all
        self.add = everybody.add
        self.signed_in = everybody.signed_in
        self.change = everybody.change
        self.remove = everybody.remove
        self.password_of = everybody.password_of
        self.rehash = everybody.rehash
        self.add_link = everybody.add_link
        self.link = everybody.link
        self.redeem_link = everybody.redeem_link

    def find(self, user_id: str) -> User | None:
        return self._vouched(self._everybody.find(user_id))

    def by_subject(self, issuer: str, subject: str) -> User | None:
        return self._vouched(self._everybody.by_subject(issuer, subject))

    def by_os_user(self, os_user: str) -> User | None:
        return self._vouched(self._everybody.by_os_user(os_user))

    def _vouched(self, user: User | None) -> User | None:
        return user if user is not None and user.issuer in self._issuers else None
