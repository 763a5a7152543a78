"""A tree of the prefixes that were read, so that a prompt which begins like an earlier one reads only what is new (chapter 5).

    tree = PrefixTree(capacity=8, block=2)
    path = tree.match(prompt)                     # the nodes of its longest known beginning
    path, gone = tree.insert(prompt, values)      # one value, such as keys and values or a page, for each whole block

A node is one block of tokens after the blocks above it: two prompts share the nodes of their common beginning, and a node
counts once however many prompts run through it. When the tree is full, the leaf that was used longest ago makes room; a node
that others stand on is no leaf, and one that a running request holds stays.

Source: Austin et al. 2025, Section 7; Zheng et al., "SGLang" (2023) for a radix tree of prefixes.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.arguments import whole


@dataclass(eq=False)
class Node:
    """One block of tokens; `used` is the tree's clock when a prompt last ran through it, `held` by how many it is in use."""

    tokens: tuple[Hashable, ...]
    value: Any = None
    parent: "Node | None" = None
    children: dict[tuple, "Node"] = field(default_factory=dict)
    used: int = 0
    held: int = 0


class PrefixTree:
    """At most `capacity` blocks, of `block` tokens each.

    >>> tree = PrefixTree(capacity=4)
    >>> _ = tree.insert("I like dogs".split(), ["kv"] * 3)
    >>> cats = "I like cats".split()
    >>> len(cats) - tree.matched(tree.match(cats))      # of three tokens one has to be read
    1
    >>> _ = tree.insert(cats, ["kv"] * 3)
    >>> len(tree)                                       # I, like, dogs, cats
    4
    >>> _, gone = tree.insert("I like cows".split(), ["kv"] * 3)
    >>> [node.tokens for node in gone]                  # the leaf that was used longest ago
    [('dogs',)]
    """

    def __init__(self, capacity: int, block: int = 1):
        whole(block=block)
        whole(0, capacity=capacity)
        self.capacity, self.block = capacity, block
        self.root = Node(())
        self.clock = self.size = 0

    def __len__(self) -> int:
        return self.size

    def match(self, tokens: Sequence) -> list[Node]:
        """The nodes of the longest beginning of `tokens` that is known, in whole blocks; they count as used now."""
        path = self._known(tokens)
        self._use(path)
        return path

    def matched(self, path: list[Node]) -> int:
        """How many tokens a path stands for."""
        return len(path) * self.block

    def insert(self, tokens: Sequence, values: Sequence) -> tuple[list[Node], list[Node]]:
        """(the path of `tokens`, the nodes that made room for it).

        values   one for each whole block of `tokens`; a block that is known keeps the value it has

        When all that could make room is held, the path ends early: what it has is right, it is only shorter.
        """
        blocks = self._blocks(tokens)
        if len(values) != len(blocks):
            raise ValueError(
                f"give a value for each of {len(blocks)} whole blocks of {self.block} tokens, not {len(values)}"
            )
        path, gone = self._known(tokens), []
        self.hold(path)  # so that a path never makes room for its own end
        while len(path) < len(blocks):
            if self.size == self.capacity:
                if (oldest := self.evict()) is None:
                    break
                gone.append(oldest)
            parent = path[-1] if path else self.root
            node = Node(blocks[len(path)], values[len(path)], parent)
            parent.children[node.tokens] = node
            self.size += 1
            self.hold([node])
            path.append(node)
        self.release(path)
        self._use(path)
        return path, gone

    def evict(self) -> Node | None:
        """Takes out the leaf that was used longest ago of those that nobody holds; None if there is none."""
        # No two leaves were used at once: those of one prompt stand above each other.
        leaves = [node for node in self.nodes() if not node.children and not node.held]
        oldest = min(leaves, key=lambda node: node.used, default=None)
        if oldest is not None:
            del oldest.parent.children[oldest.tokens]
            self.size -= 1
        return oldest

    def hold(self, path: list[Node]) -> None:
        """A request runs on these: they stay until it releases them."""
        for node in path:
            node.held += 1

    def release(self, path: list[Node]) -> None:
        for node in path:
            node.held -= 1

    def nodes(self) -> Iterator[Node]:
        """All nodes, parents before their children."""
        waiting = list(self.root.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())

    def _blocks(self, tokens: Sequence) -> list[tuple]:
        whole = len(tokens) - len(tokens) % self.block
        return [tuple(tokens[i : i + self.block]) for i in range(0, whole, self.block)]

    def _known(self, tokens: Sequence) -> list[Node]:
        path, at = [], self.root
        for block in self._blocks(tokens):
            if block not in at.children:
                break
            at = at.children[block]
            path.append(at)
        return path

    def _use(self, path: list[Node]) -> None:
        self.clock += 1
        for node in path:
            node.used = self.clock
