"""The four cases of a sharded product on two devices."""

from helpers.plot.picture import Picture
from helpers.plot.rooflines.chip_and_products import Matrix, products

TWO = (0, 1)
ROWS, COLUMNS = (2, 1), (1, 2)
CASES = (
    ("Case 1: $J$ is whole",
     [Matrix("A[I_X, J]", "$I_X$", "$J$", ROWS, TWO), "×", Matrix("B[J, K]", "$J$", "$K$"), "=",
      Matrix("C[I_X, K]", "$I_X$", "$K$", ROWS, TWO)],
     "multiply: nothing is sent"),
    ("Case 2: $J$ is sharded in one operand",
     [Matrix("A[I, J_X]", "$I$", "$J_X$", COLUMNS, TWO), "×", Matrix("B[J, K]", "$J$", "$K$"), "=",
      Matrix("C[I, K]", "$I$", "$K$")],
     "AllGather A, then multiply"),
    ("Case 3: $J$ is sharded in both",
     [Matrix("A[I, J_X]", "$I$", "$J_X$", COLUMNS, TWO), "×", Matrix("B[J_X, K]", "$J_X$", "$K$", ROWS, TWO), "=",
      Matrix("C[I, K] {U_X}", "$I$", "$K$", partial=True)],
     "multiply, then add up the partial sums: AllReduce or ReduceScatter"),
    ("Case 4: $I$ and $K$ are sharded over one axis",
     [Matrix("A[I_X, J]", "$I_X$", "$J$", ROWS, TWO), "×", Matrix("B[J, K_X]", "$J$", "$K_X$", COLUMNS, TWO), "=",
      Matrix("C", "$I_X$", "$K_X$", (2, 2), (0, None, None, 1))],
     "no device can make the white blocks: AllGather A or B first"),
)  # fmt: skip


def four_cases(alt: str, *, caption: str = "") -> Picture:
    """C[I, K] = A[I, J] · B[J, K] on two devices along X, by which of the dimensions X shards."""
    return products(CASES, alt, devices=("device 0", "device 1"), caption=caption)
