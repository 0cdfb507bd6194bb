"""Who chose a destination: what its proof, its source and an outsider's words come to together."""

from gateway.domain.flow import Chosen, Destination, Form, Proof, Said
from gateway.domain.labels import Integrity

_PLAIN = {
    Proof.TENANT: Chosen.TENANT,
    Proof.TASK: Chosen.TASK,
    Proof.TYPED: Chosen.TYPED,
    Proof.TRUSTED_RESULT: Chosen.TRUSTED_RESULT,
}
_ADDRESSES = frozenset({Form.EMAIL, Form.URL})
"""What reaches somebody anywhere is no server's own name, whatever its field is called."""


def chosen(destination: Destination, server: str) -> Chosen:
    """Return who chose `destination` of a call to `server`.

    A list shows that a thing exists, and not that it is meant; a server's own name for a thing an
    outsider writes beside, and not into. Where an outsider's words name either, they may have chosen it.
    """
    proof, said = destination.proof, destination.said
    if destination.integrity is Integrity.TRUSTED and proof is not Proof.NONE:
        listed = proof in (Proof.TYPED, Proof.TRUSTED_RESULT)
        return Chosen.PICKED if listed and said is Said.OUTSIDER else _PLAIN[proof]
    if proof is Proof.TASK:
        return Chosen.POINTED
    if said is Said.OUTSIDER:
        return Chosen.OUTSIDER
    if proof is Proof.TYPED and _is_own(destination, server):
        return Chosen.OWN_ID if said is Said.NOT else Chosen.POINTED
    if destination.form is Form.NAME or _is_given(destination):
        return Chosen.NAME if said is Said.NOT else Chosen.PICKED
    return Chosen.NOBODY


def _is_own(destination: Destination, server: str) -> bool:
    return _is_given(destination) and (destination.origin or {}).get("server") == server


def _is_given(destination: Destination) -> bool:
    """Tell whether some server gave it out as a name of its own, and no address is one."""
    minted = (destination.origin or {}).get("minted") is True
    return minted and destination.form not in _ADDRESSES
