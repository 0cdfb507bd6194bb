"""From a client's request to a person's yes or no (RFC 6749 section 4.1.1, RFC 9700 section 4.11)."""

from collections.abc import Callable
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.decisions import Verdict
from gateway.domain.flow import Run
from gateway.domain.grants import AuthorizationRequest, Transaction
from gateway.domain.identity import Client, User
from gateway.signin.browser import Browser
from gateway.signin.consent import Consents
from gateway.signin.errors import Ended, NotSignedIn, WrongBrowser
from gateway.signin.journal import Event, Journal
from gateway.signin.new_task import NewTasks
from gateway.signin.sessions import Sessions
from gateway.signin.transactions import Purpose, Transactions

FindClient = Callable[[str], Client | None]
"""Looks a client up in memory."""

_ANEW = frozenset({"login", "select_account"})
"""Prompts that want the sign-in page though somebody is signed in."""
_ASK = "ask"
"""The detail of a transaction whose client wants its person asked, whatever they said before."""


class Validated(Protocol):
    """A request that the authorization endpoint found valid, and whose it is."""

    @property
    def client(self) -> Client: ...

    @property
    def request(self) -> AuthorizationRequest: ...

    @property
    def prompts(self) -> frozenset[str]:
        """What is to happen though it need not: `login`, `consent`, `select_account`."""
        ...


class AuthorizationEndpoint(Protocol):
    """Judges requests, and turns a person's answer into a redirect."""

    async def begin(self, query: bytes, source_ip: str, *, signed_in: bool = False) -> Validated:
        """Return the request in `query`; `signed_in` is whether the person is known.

        Raises:
            Refusal: It is not valid.

        """
        ...

    async def approve(
        self,
        request: AuthorizationRequest,
        user: User,
        source_ip: str,
        *,
        proven_at: float = 0.0,
    ) -> str:
        """Return where to send the browser with a new code; recorded.

        `proven_at` is when they last showed who they are.
        """
        ...

    async def deny(self, request: AuthorizationRequest, user: User, source_ip: str) -> str:
        """Return where to send the browser with `access_denied`; recorded."""
        ...


@value
class Question:
    """What a signed-in person is asked."""

    transaction: Transaction
    request: AuthorizationRequest
    client: Client
    user: User
    proven_at: float = 0.0
    """When they last showed who they are, in seconds since the epoch; 0: nobody knows."""
    read: Run | None = None
    """What the client has read for them before, where they may say that this counts no more."""
    read_by_all: bool = False
    """Whether that is what any client of theirs has read."""


class Granting:
    """Asks people what clients want, unless they have answered that before."""

    def __init__(
        self,
        endpoint: AuthorizationEndpoint,
        find_client: FindClient,
        *,
        sessions: Sessions,
        transactions: Transactions,
        consents: Consents,
        journal: Journal,
        new_tasks: NewTasks,
    ) -> None:
        self._endpoint = endpoint
        self._find_client = find_client
        self._sessions = sessions
        self._transactions = transactions
        self._consents = consents
        self._journal = journal
        self._new_tasks = new_tasks

    async def begin(self, query: bytes, browser: Browser) -> Transaction | str:
        """Begin with the request in `query`.

        Returns a transaction, or the client's redirect where nobody has to be asked.

        Raises:
            Refusal: The endpoint's.

        """
        found = await self._sessions.signed_in(browser)
        validated = await self._endpoint.begin(
            query, browser.source_ip, signed_in=found is not None
        )
        client, request, prompts = validated.client, validated.request, validated.prompts
        if found is not None and prompts & _ANEW:
            found = None
        if found and not prompts and await self._consents.given(found.user, client, request):
            return await self._endpoint.approve(
                request, found.user, browser.source_ip, proven_at=found.proven_at
            )
        purpose = Purpose(
            name="authorize",
            detail=_ASK if prompts else "",
            request=request,
            user_id=found.user.id if found else "",
        )
        return await self._transactions.begin(browser, purpose)

    async def question(self, transaction_id: str, browser: Browser) -> Question:
        """Return what the person who is signed in in `browser` is asked.

        Raises:
            Ended: There is nothing of that id to ask, or the client is gone.
            NotSignedIn: Nobody is signed in.
            WrongBrowser: Another browser began it, or another person signed in for it.

        """
        transaction = await self._transactions.of(transaction_id, browser)
        request = transaction.request
        if request is None:
            raise Ended
        found = await self._sessions.signed_in(browser)
        if found is None:
            raise NotSignedIn
        user = found.user
        if transaction.user_id != user.id:
            raise WrongBrowser("Somebody else signed in for this. Begin again.")
        client = self._find_client(request.client_id)
        if client is None:
            raise Ended
        return Question(
            transaction=transaction,
            request=request,
            client=client,
            user=user,
            proven_at=found.proven_at,
            read=self._new_tasks.read(user, client),
            read_by_all=self._new_tasks.by_person,
        )

    async def settled(self, question: Question, browser: Browser) -> str | None:
        """Return the client's redirect if this person has allowed all of it before."""
        user, client, request = question.user, question.client, question.request
        asks = question.transaction.detail == _ASK
        if asks or not await self._consents.given(user, client, request):
            return None
        await self._transactions.finish(question.transaction)
        return await self._approved(question, browser)

    async def answer(
        self, question: Question, browser: Browser, *, yes: bool, new_task: bool = False
    ) -> str:
        """Return the client's redirect for the person's answer, which counts once.

        With a yes and `new_task` what the client has read for them until now counts no more. It is
        part of this answer alone, and not of what is remembered.

        Raises:
            Ended: It was answered before.

        """
        await self._transactions.finish(question.transaction)
        request, user = question.request, question.user
        await self._journal.write(
            Event(
                code="consent_given" if yes else "consent_refused",
                method="consent",
                source_ip=browser.source_ip,
                verdict=Verdict.ALLOW if yes else Verdict.DENY,
                user=user,
                client=request.client_id,
                endpoint=request.endpoint,
                message=" ".join(sorted(request.scopes)),
            )
        )
        if not yes:
            return await self._endpoint.deny(request, user, browser.source_ip)
        if new_task:
            await self._new_tasks.begin(user, question.client, request.endpoint, browser)
        await self._consents.remember(user, request)
        return await self._approved(question, browser)

    async def _approved(self, question: Question, browser: Browser) -> str:
        return await self._endpoint.approve(
            question.request, question.user, browser.source_ip, proven_at=question.proven_at
        )
