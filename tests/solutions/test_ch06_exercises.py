"""Exercises of chapter 6: the fastest choice is the least of all."""

from itertools import product

import pytest

TOPIC = "ch06_attention"


@pytest.mark.slow("solves the chapter")
def test_the_fastest_is_the_least_of_all(solved):
    """6.21: no other choice of the model is faster; blocks outside by queries and whole scores both win, for some chip and length."""
    kinds = set()
    for case in (
        (4096, 128, 230_000, 9.89e14, 3.35e12, 3.9e12),
        (40, 64, 40_000, 1e13, 5e12, 1e15),
        (600, 64, 160_000, 9e14, 2e12, 5e11),
    ):
        best = solved["fastest"](*case)
        choices = product(("queries", "keys", "whole"), *[(16, 32, 64, 128, 256, 512)] * 2)
        visits = lambda R, K, T=case[0]: sum(j < min(i + R, T) for i in range(0, T, R) for j in range(0, T, K))  # noqa: E731
        price = lambda choice, case=case: solved["priced"](choice, visits(*choice[1:]), *case)  # noqa: B023, E731
        assert price(best) == min(map(price, choices))
        kinds.add(best[0])
    assert kinds == {"queries", "keys", "whole"}
