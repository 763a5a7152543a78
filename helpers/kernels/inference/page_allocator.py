"""Whose pages are whose: an allocator of the pages of `paged_kv_cache`, in plain Python (chapter 5).

A sequence of n tokens has ceil(n / size) pages, so less than one page of it is empty. Sequences that begin alike share pages,
counted; who writes into a shared page gets a copy of its own first. A page can also be kept without a sequence, as by a tree of
prefixes. At all times

    a page is free, or its count says in how many tables it stands and how often it is kept
    the pages taken, less those given back, are those that are not free
    what cannot be done raises an error and changes nothing

Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention" (2023).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from helpers.arguments import Count, declared


class Exhausted(RuntimeError):
    """Too few pages are free; nothing has changed. A server waits, or takes another sequence's pages."""


class Blocks:
    """Pages of `size` tokens each, and a table for every sequence that has a name.

    >>> b = Blocks(pages=4, size=2)
    >>> b.allocate("a", 3), b.fork("a", "b"), b.available
    ([0, 1], [0, 1], 2)
    >>> b.append("b")                                       # its place is in page 1, which "a" has too
    [(1, 2)]
    >>> b.table("a"), b.table("b"), b.append("a")
    ([0, 1], [0, 2], [])
    >>> b.free("a"), b.free("b"), b.available, b.taken == b.returned
    (None, None, 4, True)
    """

    def __init__(self, pages: Count, size: Count):
        self.pages, self.size = pages, size
        self.taken = self.returned = 0
        self._free = list(range(pages))[::-1]  # the next one at the end
        self._count = [0] * pages
        self._tables: dict[Hashable, list[int]] = {}
        self._lengths: dict[Hashable, int] = {}
        self._kept: Counter[int] = Counter()

    # What there is.

    @property
    def available(self) -> int:
        """Pages that are free."""
        return len(self._free)

    @property
    def waste(self) -> int:
        """Places that are taken and empty, of all tables together; a shared page counts in each."""
        return sum(len(table) * self.size - self._lengths[name] for name, table in self._tables.items())

    def __contains__(self, name: Hashable) -> bool:
        return name in self._tables

    def names(self) -> list[Hashable]:
        """All sequences, the oldest first."""
        return list(self._tables)

    def length(self, name: Hashable) -> int:
        """Tokens of a sequence."""
        return self._lengths[self._known(name)]

    def count(self, page: int) -> int:
        """In how many tables a page stands, and how often it is kept."""
        return self._count[page]

    def table(self, name: Hashable, width: int | None = None) -> list[int]:
        """The pages of a sequence in order; filled up with -1 to `width`."""
        table = self._tables[self._known(name)]
        if width is not None and len(table) > width:
            raise ValueError(f"{name!r} has {len(table)} pages, more than the {width} of a row: make the tables wider")
        return table + [-1] * ((width or 0) - len(table))

    def needs(self, name: Hashable, n: int) -> int:
        """Pages that `append(name, n)` will take; a name that is not here yet begins with n tokens."""
        had = self._lengths.get(name, 0)
        return self._ceil(had + n) - self._ceil(had) + (n > 0 and self._must_copy(name))

    # What changes it.

    def allocate(self, name: Hashable, length: int, first: Sequence[int] = ()) -> list[int]:
        """Pages for a new sequence of `length` tokens; `first` are full pages of another one that begins alike."""
        self._new(name)
        if length < 1:
            raise ValueError(f"a sequence has one token or more, {name!r} has {length}")
        if self._ceil(length) > self.pages:
            raise ValueError(
                f"{length} tokens take {self._ceil(length)} pages of {self.size}, and there are {self.pages} in all:"
                f" {name!r} has to be shorter"
            )
        if len(first) * self.size > length:
            raise ValueError(f"{len(first)} full pages of {self.size} are more than the {length} tokens of {name!r}")
        self._in_use(first)
        self._once(name, first)
        new = self._take(self._ceil(length) - len(first), f"{length} tokens of {name!r}")
        self._share(first)
        self._tables[name], self._lengths[name] = [*first, *new], length
        return self.table(name)

    def append(self, name: Hashable, n: int = 1) -> list[tuple[int, int]]:
        """Places for n more tokens; (from, to) of the pages to copy before they are written: one at most."""
        if n < 0:
            raise ValueError(f"append adds tokens, {n} is below 0: `truncate` takes some away")
        table, had = self._tables[self._known(name)], self._lengths[name]
        copies = n > 0 and self._must_copy(name)
        new = self._take(self.needs(name, n), f"{n} more tokens of {name!r}")
        pairs = []
        if copies:
            pairs = [(table[-1], new[0])]
            self._release(table[-1])
            table[-1] = new.pop(0)
        table += new
        self._lengths[name] = had + n
        return pairs

    def fork(self, name: Hashable, new: Hashable, length: int | None = None) -> list[int]:
        """A second sequence that begins with the first `length` tokens of another one, on the same pages."""
        had = self.length(name)
        self._new(new)
        length = had if length is None else length
        if not 1 <= length <= had:
            raise ValueError(f"{name!r} has {had} tokens: a fork takes 1 to {had} of them, not {length}")
        table = self._tables[name][: self._ceil(length)]
        self._share(table)
        self._tables[new], self._lengths[new] = table, length
        return list(table)

    def truncate(self, name: Hashable, length: int) -> None:
        """The sequence without its tokens from `length` on, as those of a draft that was not accepted."""
        had = self.length(name)
        if not 1 <= length <= had:
            raise ValueError(f"{name!r} has {had} tokens: 1 to {had} may be left, not {length}")
        table = self._tables[name]
        while len(table) > self._ceil(length):
            self._release(table.pop())
        self._lengths[name] = length

    def free(self, name: Hashable) -> None:
        """The sequence is done: pages that nobody else has are free."""
        for page in reversed(self._tables.pop(self._known(name))):
            self._release(page)
        del self._lengths[name]

    def keep(self, page: int) -> None:
        """One more holds this page, who is no sequence: it stays when all sequences on it are gone."""
        self._in_use([page])
        self._share([page])
        self._kept[page] += 1

    def drop(self, page: int) -> None:
        """Who kept the page lets it go."""
        if not self._kept[page]:
            raise ValueError(f"nobody keeps page {page}: keep it first, and drop it once")
        self._kept[page] -= 1
        self._release(page)

    def replace(self, name: Hashable, i: int, page: int) -> None:
        """Page i of a sequence's table is another one from now on, which holds the same tokens already."""
        table = self._tables[self._known(name)]
        if not 0 <= i < len(table):
            raise ValueError(
                f"{name!r} has {len(table)} pages, numbered from 0: there is no page number {i} in its table"
            )
        self._in_use([page])
        self._once(name, [*table[:i], page, *table[i + 1 :]])
        self._share([page])
        self._release(table[i])
        table[i] = page

    def resume(self, gone: Mapping[Hashable, tuple[Sequence[int], int]], here: Mapping[int, int]) -> dict[int, int]:
        """Sequences that were freed come back, {name: (its table then, length)}, and share pages as they did.

        here    {page then: page that holds the same now}; each other page gets a free one
        Returns {page then: page now} of all
        """
        for name, (table, length) in gone.items():
            self._new(name)
            if len(table) != self._ceil(length):
                raise ValueError(f"{length} tokens of {name!r} take {self._ceil(length)} pages, not {len(table)}")
        self._in_use(here.values())
        missing = sorted({page for table, _ in gone.values() for page in table} - here.keys())
        new = self._take(len(missing), f"the pages of {', '.join(map(repr, gone))}")
        now = dict(here) | dict(zip(missing, new))
        for name, (table, length) in gone.items():
            self._tables[name], self._lengths[name] = [now[page] for page in table], length
            self._share(self._tables[name])
        for page in new:
            self._count[page] -= 1  # counted when it was taken, and once for each table since
        return now

    def check(self) -> None:
        """Whether all that is said above holds; AssertionError if not."""
        stands = Counter(page for table in self._tables.values() for page in table)
        holds = {
            "a page stands in as many tables as its count says, or is kept": self._count
            == [stands[p] + self._kept[p] for p in range(self.pages)],
            "free pages are those that stand in no table and nobody keeps": sorted(self._free)
            == [p for p in range(self.pages) if not stands[p] + self._kept[p]],
            "no table has a page twice": all(len(set(t)) == len(t) for t in self._tables.values()),
            "pages taken and given back balance": self.taken - self.returned == self.pages - self.available,
            "a table has the pages that its tokens need": all(
                len(t) == self._ceil(self._lengths[name]) for name, t in self._tables.items()
            ),
        }
        if broken := [what for what, true in holds.items() if not true]:
            raise AssertionError("; ".join(broken))

    # How.

    def _ceil(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def _must_copy(self, name: Hashable) -> bool:
        """Whether its next token stands in a page that another sequence has too."""
        return self._lengths.get(name, 0) % self.size > 0 and self._count[self._tables[name][-1]] > 1

    def _take(self, n: int, why: str) -> list[int]:
        if n > self.available:
            raise Exhausted(f"{why} take {n} pages, and {self.available} of {self.pages} are free: wait, or free some")
        pages = [self._free.pop() for _ in range(n)]
        for page in pages:
            self._count[page] = 1
        self.taken += n
        return pages

    def _share(self, pages: Iterable[int]) -> None:
        for page in pages:
            self._count[page] += 1

    def _in_use(self, pages: Iterable[int]) -> None:
        if free := [page for page in pages if not (0 <= page < self.pages and self._count[page])]:
            raise ValueError(f"pages {free} are in nobody's use: only a page that holds tokens can be shared")

    def _once(self, name: Hashable, pages: Sequence[int]) -> None:
        if len(set(pages)) < len(pages):
            raise ValueError(f"a page stands once in a table: {name!r} would have {list(pages)}")

    def _release(self, page: int) -> None:
        self._count[page] -= 1
        if not self._count[page]:
            self._free.append(page)
            self.returned += 1

    def _known(self, name: Hashable) -> Hashable:
        if name not in self._tables:
            raise ValueError(f"there is no sequence {name!r}: allocate it first")
        return name

    def _new(self, name: Hashable) -> None:
        if name in self._tables:
            raise ValueError(f"there is a sequence {name!r} already: free it first, or take another name")


declared(__name__)
