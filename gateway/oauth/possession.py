"""Which requests have to prove that their sender holds a key, and how that is read off them.

RFC 9449, as MCP uses it (SEP-1932).
"""

from collections.abc import Callable, Sequence
from typing import Final

from gateway.domain._value import value
from gateway.domain.identity import BoundToken, Credential, Proof
from gateway.errors import ProofRefused, Unauthenticated
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.proofs import ALGORITHMS, LONGEST_WINDOW_S, Shown, judge
from gateway.oauth.seen_proofs import SeenProofs
from gateway.ports import Clock

_PUBLIC = "the DPoP proof is not valid for this request"


@value
class ProofRules:
    """What is asked for where: nothing, unless it is said."""

    taken: frozenset[str] = frozenset()
    """Endpoints, by path (`/mcp/mail`), for which a token is bound if its client holds a key."""
    required: frozenset[str] = frozenset()
    """Those of them that no other token opens."""
    window_s: float = 60.0
    """How far the time at which a proof was made may be from ours."""

    def __post_init__(self) -> None:
        if not 0 < self.window_s <= LONGEST_WINDOW_S:
            raise ValueError(f"a proof is good for at most {LONGEST_WINDOW_S:.0f} s")
        if not self.required <= self.taken:
            raise ValueError("proofs are required where none are taken")

    def algorithms(self, endpoint: str) -> tuple[str, ...]:
        """Return with what proofs for `endpoint` may be signed; nothing where none are taken."""
        return ALGORITHMS if endpoint in self.taken else ()


NO_PROOFS: Final = ProofRules()


class Possession:
    """Reads proofs, and keeps in mind which were used."""

    def __init__(self, rules: ProofRules, seen: SeenProofs, *, clock: Clock) -> None:
        self.rules = rules
        self._seen = seen
        self._clock = clock

    def read(self, proofs: Sequence[str], shown: Shown) -> Proof:
        """Return what the one proof of a request proves; its use is not noted yet.

        Raises:
            ValueError: There is not exactly one (RFC 9449 section 4.3, check 1), or it proves nothing.

        """
        if len(proofs) != 1:
            raise ValueError("more than one" if proofs else "missing")
        return judge(proofs[0], shown, window_s=self.rules.window_s, now=self._clock())

    def use(self, proof: Proof, *, owner: str) -> None:
        """Note the use of a proof; raises ValueError like `SeenProofs.use`."""
        self._seen.use(proof, owner=owner, now=self._clock())

    async def require(self, key: str, credential: Credential, endpoint: str, *, owner: str) -> None:
        """Return only if whoever shows a token of `owner` that is bound to `key` holds it.

        Last of all that is looked at: what is refused for something else uses no proof up.

        Raises:
            ProofRefused: Its proof was used before.
            Unauthenticated: There is no proof, one of another key, or the token is bound to none.

        """
        proof = credential.proof if isinstance(credential, BoundToken) else None
        if proof is None:
            if key:
                raise Unauthenticated(_BOUND, detail="a bound token without a proof")
            if endpoint in self.rules.required:
                raise Unauthenticated(_UNBOUND, detail="the token is bound to no key")
            return
        if endpoint not in self.rules.taken:
            raise Unauthenticated("no bound tokens are taken here", detail="DPoP is off here")
        if not key:
            raise Unauthenticated(
                _UNPROVEN, detail="a proof beside a token that is bound to no key"
            )
        if proof.key != key:
            raise Unauthenticated(_UNPROVEN, detail="the token is bound to another key")
        try:
            await self._seen.use_soon(proof, owner=owner, now=self._clock())
        except ValueError as error:
            raise ProofRefused(_PUBLIC, detail=f"DPoP proof: {error}") from error


_BOUND = "the access token is bound to a key: send it by the scheme DPoP, with a proof"
_UNBOUND = "an access token has to be bound to a key here (DPoP)"
_UNPROVEN = "the access token is not bound to the key of the DPoP proof"


class ProvenTokens:
    """What a request shows by the scheme DPoP (RFC 9449 section 7.1)."""

    def __init__(self, possession: Possession, urls_of: Callable[[str], tuple[str, ...]]) -> None:
        """Take under which URLs a path is known, from configuration alone."""
        self._possession = possession
        self._urls_of = urls_of

    def read(
        self, method: str, path: str, token: str, proofs: Sequence[str], *, endpoint: str = ""
    ) -> Credential:
        """Return `token` with what the request's proof proves; `None` where none are taken.

        `endpoint` is which one the path belongs to, where that is not the path itself.

        Raises:
            ProofRefused: No good proof comes with it.

        """
        if (endpoint or path) not in self._possession.rules.taken:
            return None
        shown = Shown(method=method, urls=self._urls_of(path), token=token)
        try:
            return BoundToken(text=token, proof=self._possession.read(proofs, shown))
        except ValueError as error:
            raise ProofRefused(_PUBLIC, detail=f"DPoP proof: {error}") from error


def without_proofs() -> Possession:
    """Return what takes no proofs anywhere."""
    return Possession(NO_PROOFS, SeenProofs(since=0.0), clock=lambda: 0.0)


def refused_proof(why: str, public: str = _PUBLIC) -> OAuthError:
    """Return the authorization server's refusal of a proof (RFC 9449 section 5)."""
    return OAuthError(ErrorCode.INVALID_DPOP_PROOF, public, detail=f"DPoP proof: {why}")
