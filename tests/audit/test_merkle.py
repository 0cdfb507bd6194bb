"""The tree of the log, against published vectors and against its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.merkle import (
    EMPTY_ROOT,
    CompactRange,
    leaf_hash,
    node_hash,
)
from gateway.audit.proofs import consistency_path, inclusion_path
from gateway.audit.tiles import TiledTree, tile_root
from tests.audit.proven import verify_consistency, verify_inclusion

# The reference tree of the Certificate Transparency project (RFC 6962): eight entries, its root
# after each, and two of its proofs.
ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    bytes.fromhex(root)
    for root in (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
INCLUSION_OF_5_IN_8 = [
    bytes.fromhex(node)
    for node in (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    )
]
CONSISTENCY_OF_6_WITH_8 = [
    bytes.fromhex(node)
    for node in (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    )
]


def leaves_of(size):
    return [leaf_hash(index.to_bytes(4, "big")) for index in range(size)]


def by_definition(leaves):
    """MTH of RFC 9162 section 2.1.1, word for word."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(by_definition(leaves[:split]), by_definition(leaves[split:]))


def proof(path, leaves):
    return [by_definition(leaves[part.start : part.stop]) for part in path]


def test_the_published_roots_are_reproduced():
    tree, roots = CompactRange(), []
    for leaf in LEAVES:
        tree = tree.extend([leaf])
        roots.append(tree.root())
    assert roots == ROOTS


def test_the_published_proofs_are_reproduced():
    assert proof(inclusion_path(5, 8), LEAVES) == INCLUSION_OF_5_IN_8
    assert proof(consistency_path(6, 8), LEAVES) == CONSISTENCY_OF_6_WITH_8


def test_the_published_proofs_are_accepted():
    assert verify_inclusion(LEAVES[5], 5, 8, INCLUSION_OF_5_IN_8, ROOTS[7])
    assert verify_consistency(6, 8, ROOTS[5], ROOTS[7], CONSISTENCY_OF_6_WITH_8)


def test_an_empty_tree_has_the_root_of_nothing():
    assert CompactRange().root() == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("size", [*range(34), 255, 256, 257, 511, 513])
def test_every_inclusion_and_consistency_proof_of_a_tree_is_accepted(size):
    leaves = leaves_of(size)
    root = by_definition(leaves)
    step = 1 if size < 40 else 37
    for index in range(0, size, step):
        assert verify_inclusion(
            leaves[index], index, size, proof(inclusion_path(index, size), leaves), root
        )
    for old in range(1, size + 1, step):
        assert verify_consistency(
            old,
            size,
            by_definition(leaves[:old]),
            root,
            proof(consistency_path(old, size), leaves),
        )


@given(st.integers(0, 700), st.integers(0, 700))
def test_appending_in_two_steps_gives_the_root_of_all(first, second):
    leaves = leaves_of(first + second)
    tree = CompactRange().extend(leaves[:first]).extend(leaves[first:])
    assert (tree.size, tree.root()) == (first + second, by_definition(leaves))


@given(st.lists(st.integers(0, 300), max_size=6))
def test_a_tiled_tree_has_the_same_root_and_the_roots_of_its_tiles(batches):
    leaves = leaves_of(sum(batches))
    tree, done = TiledTree(), 0
    tiles: list[bytes] = []
    for batch in batches:
        tree, completed = tree.extend(leaves[done : done + batch])
        tiles += completed
        done += batch
    whole = [leaves[at : at + 256] for at in range(0, len(leaves) - 255, 256)]
    assert (tree.size, tree.root()) == (len(leaves), by_definition(leaves))
    assert tiles == [tile_root(tile) for tile in whole]


@given(st.integers(2, 60), st.data())
def test_no_other_leaf_index_size_or_path_is_accepted(size, data):
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    root, path = by_definition(leaves), proof(inclusion_path(index, size), leaves)
    other = data.draw(st.integers(0, size - 1).filter(lambda n: n != index))
    position = data.draw(st.integers(0, len(path) - 1))
    bent = [*path[:position], leaf_hash(b"bent"), *path[position + 1 :]]
    assert not verify_inclusion(leaves[other], index, size, path, root)
    assert not verify_inclusion(leaves[index], other, size, path, root)
    assert not verify_inclusion(leaves[index], index, size, bent, root)
    assert not verify_inclusion(leaves[index], index, size, path[:-1], root)
    assert not verify_inclusion(leaves[index], index, size, [*path, root], root)


@given(st.integers(2, 60), st.data())
def test_a_tree_that_was_rewritten_has_no_consistency_proof(size, data):
    leaves = leaves_of(size)
    old = data.draw(st.integers(1, size - 1))
    changed = data.draw(st.integers(0, old - 1))
    rewritten = [*leaves]
    rewritten[changed] = leaf_hash(b"rewritten")
    path = proof(consistency_path(old, size), rewritten)
    old_root, new_root = by_definition(leaves[:old]), by_definition(rewritten)
    assert not verify_consistency(old, size, old_root, new_root, path)
    assert not verify_consistency(old, size, old_root, by_definition(leaves), path[:-1])


def test_trees_that_cannot_be_are_refused():
    assert not verify_inclusion(LEAVES[0], 1, 1, [], LEAVES[0])
    assert not verify_inclusion(LEAVES[0], -1, 1, [], LEAVES[0])
    assert not verify_consistency(0, 8, EMPTY_ROOT, ROOTS[7], [])
    assert not verify_consistency(8, 6, ROOTS[7], ROOTS[5], [])
    assert not verify_consistency(3, 8, ROOTS[2], ROOTS[7], [])
    assert not verify_consistency(8, 8, ROOTS[7], ROOTS[6], [])
    with pytest.raises(ValueError, match="no leaf 8 in a tree of 8"):
        inclusion_path(8, 8)
    with pytest.raises(ValueError, match="a tree of 0 leaves proves nothing"):
        consistency_path(0, 8)
    with pytest.raises(ValueError, match="no tree of height 3 fits after 4 leaves"):
        CompactRange().extend(LEAVES[:4]).extend(LEAVES[:1], height=3)
