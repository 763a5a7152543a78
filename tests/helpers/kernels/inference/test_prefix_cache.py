"""The prefix tree against a model of it that keeps every known beginning as one entry of a flat table."""

import random

import pytest

from helpers.kernels.inference.prefix_cache import PrefixTree


class Flat:
    """The same rules without a tree: {beginning: when it was used last}, {beginning: how often it is held}."""

    def __init__(self, capacity, block):
        self.capacity, self.block, self.used, self.held, self.clock = capacity, block, {}, {}, 0

    def beginnings(self, tokens):
        return [tuple(tokens[:end]) for end in range(self.block, len(tokens) + 1, self.block)]

    def match(self, tokens):
        known = [b for b in self.beginnings(tokens) if b in self.used]
        self.clock += 1
        self.used.update(dict.fromkeys(known, self.clock))
        return known

    def insert(self, tokens):
        mine, gone = self.beginnings(tokens), []
        for i, b in enumerate(mine):
            if b not in self.used:
                if len(self.used) == self.capacity:
                    out = self.evict(besides=mine[:i])
                    if out is None:
                        mine = mine[:i]
                        break
                    gone.append(out)
                self.used[b] = self.clock
        self.clock += 1
        self.used.update(dict.fromkeys(mine, self.clock))
        return mine, gone

    def evict(self, besides=()):
        inner = {b[: -self.block] for b in self.used}
        free = [b for b in self.used if b not in inner and not self.held.get(b) and b not in besides]
        if not free:
            return None
        out = min(free, key=self.used.get)
        del self.used[out]
        return out


def whole(node):
    """The beginning that a node stands for."""
    return whole(node.parent) + node.tokens if node.parent else ()


def state(tree):
    return {whole(node): node.used for node in tree.nodes()}


@pytest.mark.parametrize("capacity, block", [(0, 1), (1, 1), (5, 1), (12, 2), (20, 3)])
def test_a_thousand_requests_leave_what_the_flat_model_leaves(capacity, block):
    draw = random.Random(capacity)
    tree, flat, running = PrefixTree(capacity, block), Flat(capacity, block), []
    full = refused = 0
    for _ in range(1000):
        tokens = [draw.randrange(3) for _ in range(draw.randrange(9))]
        kind = draw.choice(["match", "insert", "insert", "evict", "run", "end", "end"])
        if kind in ("match", "run"):
            path, known = tree.match(tokens), flat.match(tokens)
            assert [whole(node) for node in path] == known
            if kind == "run":
                tree.hold(path)
                flat.held.update({b: flat.held.get(b, 0) + 1 for b in known})
                running.append((path, known))
        elif kind == "insert":
            path, gone = tree.insert(tokens, [tuple(tokens)] * (len(tokens) // block))
            expected, out = flat.insert(tokens)
            assert [whole(node) for node in path] == expected
            assert [whole(node) for node in gone] == out
            refused += len(path) < len(tokens) // block
        elif kind == "evict":
            node = tree.evict()
            assert (node and whole(node)) == flat.evict()
        elif running:
            path, known = running.pop(draw.randrange(len(running)))
            tree.release(path)
            flat.held.update({b: flat.held[b] - 1 for b in known})
        full += len(tree) == capacity
        assert state(tree) == flat.used
        assert len(tree) == len(flat.used) <= capacity
    for path, _ in running:
        tree.release(path)
    assert full and not any(node.held for node in tree.nodes())
    assert refused or capacity > 5


def test_only_whole_blocks_are_kept():
    tree = PrefixTree(capacity=10, block=4)
    tree.insert(range(11), "ab")
    assert tree.matched(tree.match(range(11))) == 8
    assert tree.matched(tree.match(range(7))) == 4
    with pytest.raises(ValueError, match="a value for each of 2 whole blocks of 4 tokens, not 3"):
        tree.insert(range(11), "abc")
