"""The four cases of a sharded product on two devices."""

from helpers.plot.picture import Picture
from helpers.plot.rooflines.chip_and_products import Matrix, products

TWO = (0, 1)
ROWS, COLUMNS = (2, 1), (1, 2)
CASES = (
    ("Case 1: $D$ is whole",
     [Matrix("In[B_X, D]", "$B_X$", "$D$", ROWS, TWO), "×", Matrix("W_in[D, F]", "$D$", "$F$"), "=",
      Matrix("Tmp[B_X, F]", "$B_X$", "$F$", ROWS, TWO)],
     "multiply: nothing is sent"),
    ("Case 2: $D$ is sharded in one operand",
     [Matrix("In[B, D_X]", "$B$", "$D_X$", COLUMNS, TWO), "×", Matrix("W_in[D, F]", "$D$", "$F$"), "=",
      Matrix("Tmp[B, F]", "$B$", "$F$")],
     "AllGather that operand, then multiply"),
    ("Case 3: $D$ is sharded in both",
     [Matrix("In[B, D_X]", "$B$", "$D_X$", COLUMNS, TWO), "×", Matrix("W_in[D_X, F]", "$D_X$", "$F$", ROWS, TWO), "=",
      Matrix("Tmp[B, F] {U_X}", "$B$", "$F$", partial=True)],
     "multiply, then add up the partial sums: AllReduce or ReduceScatter"),
    ("Case 4: $B$ and $F$ are sharded over one axis",
     [Matrix("In[B_X, D]", "$B_X$", "$D$", ROWS, TWO), "×", Matrix("W_in[D, F_X]", "$D$", "$F_X$", COLUMNS, TWO), "=",
      Matrix("Tmp", "$B_X$", "$F_X$", (2, 2), (0, None, None, 1))],
     "no device can make the white blocks: AllGather one operand first"),
)  # fmt: skip


def four_cases(alt: str, *, caption: str = "") -> Picture:
    """Tmp[B, F] = In[B, D] · W_in[D, F] on two devices along X, by which of the dimensions X shards."""
    return products(CASES, alt, devices=("device 0", "device 1"), caption=caption)
