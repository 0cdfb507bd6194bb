"""Whoever holds a root, and is shown a proof."""

from collections.abc import Sequence

from gateway.audit.merkle import node_hash


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Say whether `proof` shows `leaf` at `index` under `root` (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    first, last, computed = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if first & 1 or first == last:
            computed = node_hash(sibling, computed)
            while first and not first & 1:
                first, last = first >> 1, last >> 1
        else:
            computed = node_hash(computed, sibling)
        first, last = first >> 1, last >> 1
    return last == 0 and computed == root


def verify_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Say whether `proof` shows that the second tree extends the first (RFC 9162, 2.1.4.2)."""
    if not 0 < old <= new:
        return False
    if old == new:
        return not proof and old_root == new_root
    nodes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not nodes:
        return False
    first, last = old - 1, new - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    computed_old = computed_new = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            computed_old = node_hash(node, computed_old)
            computed_new = node_hash(node, computed_new)
            while first and not first & 1:
                first, last = first >> 1, last >> 1
        else:
            computed_new = node_hash(computed_new, node)
        first, last = first >> 1, last >> 1
    return last == 0 and computed_old == old_root and computed_new == new_root
