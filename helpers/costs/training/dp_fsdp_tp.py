"""Four ways to train one layer of two products on many chips: what each computes, sends, and when it waits (chapter 4).

The layer is Out = (In · W_in) · W_out for In[B, D], W_in[D, F], W_out[F, D]: a Transformer seen as a stack of MLPs.
B is tokens in the batch of all chips. X chips share the batch, Y chips share F, N = X·Y; M_X and M_Y are the axes of
the torus that they take. W is bytes/s of one link in one direction, and alpha = C/(2W): FLOPs per byte over ONE torus axis,
whose rings go both ways: `Chip.alpha_ici()`, v5p 2550. What goes over the data-centre network has W_dcn, one direction.
Of a batch that goes through in microbatches, B is the tokens of ONE of them: FSDP and TP send for each anew
(`closed_forms`).

An algorithm is a list of lines in the notation. FLOPs and collectives are read from its shardings, so what the page
prints, what the table says and what a program is counted to send are one thing. Beside it stand the sources' closed forms.

Source: Austin et al. 2025, Section 5; errors of its text are listed in the course's errata (E001).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from math import inf, prod

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.roofline import Time
from helpers.costs.sharding.collectives import Collective, seconds
from helpers.costs.sharding.sharded_array import Mesh, Sharding, bytes_each, parse
from helpers.numeric import plain, significant, sqrt

# The lines of FSDP+TP. Other strategies drop axes, and with them the collectives that have none left.
# A star marks what nothing waits for: it can run beside the products before it or after it.
FORWARD = """
AllGather_y      In[B_x, D_y] -> In[B_x, D]
AllGather_w *    W_in[D_w, F_y] -> W_in[D, F_y]
Matmul           In[B_x, D] · W_in[D, F_y] -> Tmp[B_x, F_y]
AllGather_w *    W_out[F_y, D_w] -> W_out[F_y, D]
Matmul           Tmp[B_x, F_y] · W_out[F_y, D] -> Out[B_x, D] {U_y}
ReduceScatter_y  Out[B_x, D] {U_y} -> Out[B_x, D_y]
"""
BACKWARD = """
AllGather_y      dOut[B_x, D_y] -> dOut[B_x, D]
Matmul           Tmp[B_x, F_y] · dOut[B_x, D] -> dW_out[F_y, D] {U_x}
Reduce *         dW_out[F_y, D] {U_x} -> dW_out[F_y, D_w]
AllGather_w *    W_out[F_y, D_w] -> W_out[F_y, D]
Matmul           dOut[B_x, D] · W_out[F_y, D] -> dTmp[B_x, F_y]
AllGather_y *    In[B_x, D_y] -> In[B_x, D]
Matmul           In[B_x, D] · dTmp[B_x, F_y] -> dW_in[D, F_y] {U_x}
Reduce *         dW_in[D, F_y] {U_x} -> dW_in[D_w, F_y]
AllGather_w *    W_in[D_w, F_y] -> W_in[D, F_y]
Matmul           dTmp[B_x, F_y] · W_in[D, F_y] -> dIn[B_x, D] {U_y}
ReduceScatter_y  dIn[B_x, D] {U_y} -> dIn[B_x, D_y]
"""

# What takes the place of x, y and w above: the axis of the batch, the axis of F, the axis that weights are kept over.
STRATEGIES = {"DP": ("X", "", ""), "FSDP": ("X", "", "X"), "TP": ("", "Y", ""), "FSDP+TP": ("X", "Y", "X")}


@record
class Line:
    """One line of an algorithm.

    kind      "Matmul", or what is sent
    axes      the mesh axes it is sent over
    operands  two of a product, one of a collective
    waits     the next line cannot begin before it: a collective on the critical path
    """

    kind: str
    axes: tuple[str, ...]
    operands: tuple[Sharding, ...]
    result: Sharding
    waits: bool

    def flops(self, sizes: Mapping[str, float], n: Mapping[str, int]):
        """FLOPs of one device; 0 for a collective. `n` has the sizes of the mesh axes."""
        if self.kind != "Matmul":
            return 0
        cut = {d: axes for a in self.operands for d, axes in zip(a.dims, a.axes)}
        return 2 * prod(sizes[d] / prod(n[a] for a in axes) for d, axes in cut.items())

    def bytes(self, sizes: Mapping[str, float], axis_sizes: Mapping[str, int], dtype: str = "bf16"):
        """Bytes of the array on one device where it is whole along the axes; twice those for an AllReduce; 0 for a product."""
        if self.kind == "Matmul":
            return 0
        whole = self.result if self.kind == "AllGather" else self.operands[0]
        times = 2 if self.kind == "AllReduce" else 1
        local = prod(sizes[d] / prod(axis_sizes[a] for a in axes) for d, axes in zip(whole.dims, whole.axes))
        return times * bytes_each(dtype) * local

    def collective(self, sizes: Mapping[str, int], mesh: Mesh, dtype: str = "bf16") -> Collective:
        """What it sends, as `helpers.trace` counts it; not for a product."""
        before, after = (array.local(sizes, mesh) for array in (self.operands[0], self.result))
        return Collective(self.kind, self.axes, before, after, dtype)

    def __str__(self) -> str:
        does = self.kind if self.kind == "Matmul" else f"{self.kind}_{''.join(self.axes)}"
        beside = " " if self.waits or self.kind == "Matmul" else "*"
        return f"{does:<15} {beside} {' · '.join(map(str, self.operands))} -> {self.result}"


@record
class Algorithm:
    """One training step of the layer, on each device: the lines of its forward and of its backward pass."""

    forward: tuple[Line, ...]
    backward: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(("forward", *map(str, self.forward), "backward", *map(str, self.backward)))


@cache
def algorithm(strategy: str, keep_gathered: bool = False) -> Algorithm:
    """The lines of "DP", "FSDP", "TP" or "FSDP+TP".

    keep_gathered  the gathered In[B_X, D] is kept for the backward pass, where otherwise it is gathered again

    >>> print(algorithm("TP", keep_gathered=True))
    forward
    AllGather_Y      In[B, D_Y] -> In[B, D]
    Matmul           In[B, D] · W_in[D, F_Y] -> Tmp[B, F_Y]
    Matmul           Tmp[B, F_Y] · W_out[F_Y, D] -> Out[B, D] {U_Y}
    ReduceScatter_Y  Out[B, D] {U_Y} -> Out[B, D_Y]
    backward
    AllGather_Y      dOut[B, D_Y] -> dOut[B, D]
    Matmul           Tmp[B, F_Y] · dOut[B, D] -> dW_out[F_Y, D]
    Matmul           dOut[B, D] · W_out[F_Y, D] -> dTmp[B, F_Y]
    Matmul           In[B, D] · dTmp[B, F_Y] -> dW_in[D, F_Y]
    Matmul           dTmp[B, F_Y] · W_in[D, F_Y] -> dIn[B, D] {U_Y}
    ReduceScatter_Y  dIn[B, D] {U_Y} -> dIn[B, D_Y]
    >>> [len(lines) for lines in (algorithm("FSDP+TP").forward, algorithm("FSDP+TP").backward)]   # and one for the loss in each
    [6, 11]
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"{strategy!r} is no strategy: there are {', '.join(STRATEGIES)}")
    axes = dict(zip("xyw", STRATEGIES[strategy]))
    forward, backward = (tuple(_lines(text, axes)) for text in (FORWARD, BACKWARD))
    if keep_gathered:
        backward = tuple(a for a in backward if a.kind != "AllGather" or a.result.name != "In")
    return Algorithm(forward, backward)


def _lines(text: str, axes: Mapping[str, str]) -> Iterator[Line]:
    for row in text.strip().splitlines():
        does, arrays = row.split(maxsplit=1)
        kind, _, over = does.partition("_")
        for small, capital in axes.items():
            arrays = arrays.replace(f" {{U_{small}}}", f" {{U_{capital}}}" if capital else "")
            arrays = arrays.replace(f"_{small}", f"_{capital}" if capital else "")
        waits = not arrays.startswith("* ")
        before, after = arrays.removeprefix("* ").split(" -> ")
        if kind == "Reduce":  # a sum that stays cut over the axis of the weights, or is whole everywhere
            kind, over = ("ReduceScatter" if axes["w"] else "AllReduce"), "x"
        if kind == "Matmul" or axes[over]:
            operands = tuple(parse(a) for a in before.split(" · "))
            yield Line(kind, tuple(axes.get(over, "")), operands, parse(after), waits)


@record
class Pass:
    """What one device does in a forward or a backward pass of the layer.

    flops  of the products
    bytes  by mesh axis: of each array gathered or scattered where it is whole along the axis, twice for an AllReduce
    """

    flops: float
    bytes: Mapping[str, float]

    @property
    def total(self):
        """Bytes over all axes: a row of the strategy table."""
        return sum(self.bytes.values())

    def time(self, C, W, M: Mapping[str, int]) -> Time:
        """Seconds of arithmetic and of each mesh axis' collectives, without latency, on rings of even length.

        C  FLOPs/s of one chip
        W  bytes/s of one link in one direction
        M  axes of the torus that each mesh axis takes, {"X": 2, "Y": 1}

        >>> f, _ = cost("FSDP+TP", 48000, 8192, 32768, X=16, Y=4)
        >>> t = f.time(4.59e14, 9e10, {"X": 2, "Y": 1})
        >>> t.bound, f"{t.parts['X'] / t.parts['Y']:.2f}"
        ('math', '1.37')
        """
        return Time({"math": self.flops / C} | {a: b / (2 * W * M[a]) for a, b in self.bytes.items()})


@formula
def cost(strategy: str, B, D, F, X=1, Y=1, keep_gathered: bool = False, dtype: str = "bf16") -> tuple[Pass, Pass]:
    """The forward and the backward pass of one layer, on one device: a row of the strategy table.

    >>> f, b = cost("FSDP+TP", B=4096, D=1024, F=4096, X=8, Y=4)
    >>> f.total == 4 * 4096 * 1024 / 8 + 4 * 1024 * 4096 / 4, b.total == 6 * 4096 * 1024 / 8 + 8 * 1024 * 4096 / 4
    (True, True)
    >>> f, b = cost("DP", B=4096, D=1024, F=4096, X=8)
    >>> f.total, b.total == 8 * 1024 * 4096, b.flops == 8 * 4096 * 1024 * 4096 / 8
    (0, True, True)
    """
    lines, sizes, n = algorithm(strategy, keep_gathered), {"B": B, "D": D, "F": F}, {"X": X, "Y": Y}
    used = [a for a in dict.fromkeys(STRATEGIES[strategy]) if a]
    if unused := [a for a in n if a not in used and isinstance(n[a], int) and n[a] > 1]:
        raise ValueError(f"{strategy} has no axis {unused[0]}: its axes are {' and '.join(used)}")
    return tuple(
        Pass(
            sum(a.flops(sizes, n) for a in one_way),
            {axis: sum(a.bytes(sizes, n, dtype) for a in one_way if axis in a.axes) for axis in used},
        )
        for one_way in (lines.forward, lines.backward)
    )


@formula
def times(
    strategy: str, B: int, D: int, F: int, mesh: Mesh, chip: Chip, keep_gathered: bool = False, hop: float | None = None
):
    """Seconds of the forward and of the backward pass on the mesh's own rings and lines, with latency: a `Time` for each.

    >>> f, b = times("FSDP+TP", 48000, 8192, 32768, Mesh.on(Slice(chip("v5p"), (4, 4, 4)), {"X": (0, 1), "Y": (2,)}), chip("v5p"))
    >>> f"{f.lower:.3g} {f.bound} {b.lower:.3g} {b.bound}"
    '0.00175 math 0.00351 math'
    """
    sizes, out = {"B": B, "D": D, "F": F}, []
    for array in {s for a in algorithm(strategy, keep_gathered).forward for s in (*a.operands, a.result)}:
        array.check(mesh, sizes)
    for lines in (algorithm(strategy, keep_gathered).forward, algorithm(strategy, keep_gathered).backward):
        parts = {"math": sum(a.flops(sizes, mesh.sizes) for a in lines) / chip.rate()}
        for a in lines:
            if a.kind != "Matmul":
                (axis,) = a.axes
                move = a.collective(sizes, mesh).move(mesh)
                took = seconds(move, chip.link_bandwidth, chip.hop if hop is None else hop)
                parts[axis] = parts.get(axis, 0.0) + took
        out.append(Time(parts))
    return tuple(out)


# Closed forms. T_math / T_comms of the forward pass, above 1 where arithmetic decides. A backward pass has twice the
# FLOPs and at most twice the bytes, so it is no stricter.


@formula
def data_ratio(B, N, alpha, M, microbatches=1):
    """T_math / T_comms of data parallelism or FSDP: tokens of a chip against alpha / M (of the backward pass for DP).

    microbatches  microbatches that the B tokens go through in. FSDP gathers weights for each, so each has to hide its own; DP sums
                  gradients once, beside the backward pass of the last one

    >>> data_ratio(2550 * 64, 64, 2550, 1), f"{data_ratio(3e6, 4096, 2550, 3):.2f}"
    (1.0, '0.86')
    >>> data_ratio(2550 * 64, 64, 2550, 1, microbatches=8)
    0.125
    """
    return B * M / (N * alpha * microbatches)


@formula
def tensor_ratio(F, N, alpha, M):
    """T_math / T_comms of tensor parallelism over N chips: the batch does not matter."""
    return F * M / (N * alpha)


@formula
def mixed_ratio(B, F, N, alpha, M_X, M_Y):
    """T_math / T_comms of FSDP+TP at the best real X, both axes' collectives at once: it grows with the square ROOT of B.

    >>> f"{mixed_ratio(4e6, 32768, 4096, 2550, 2, 1) / mixed_ratio(1e6, 32768, 4096, 2550, 2, 1):.1f}"
    '2.0'
    """
    return sqrt(B * F * M_X * M_Y / N) / alpha


@formula
def data_batch(alpha, M):
    """Tokens of one chip, in each microbatch, from which data parallelism or FSDP is bound by arithmetic.

    >>> data_batch(2550, 1), data_batch(2550, 3), f"{data_batch(2550, 3) * 8960:.3g}"       # v5p; a pod
    (2550.0, 850.0, '7.62e+06')
    """
    return alpha / M


@formula
def tensor_limit(F, alpha, M):
    """Chips over which tensor parallelism stays bound by arithmetic: M·F/alpha. No batch helps.

    >>> round(tensor_limit(28672, 2550, 1), 1), round(tensor_limit(49152, 2550, 1), 1)
    (11.2, 19.3)
    """
    return M * F / alpha


@formula
def X_opt(B, F, N, M_X, M_Y):
    """The real X that makes FSDP's and TP's collectives take equally long: of N chips, those that share the batch.

    Outside of 1 to N one of the two alone is best; `best_split` has the best whole number.

    >>> f"{X_opt(48000, 32768, 64, 2, 1):.2f} {X_opt(3e6, 13824, 4096, 2, 1):.0f}"
    '13.69 1333'
    """
    return sqrt(B / F * (M_X / M_Y) * N)


@formula
def mixed_batch(F, alpha, M_X, M_Y):
    """Tokens of one chip, in each microbatch, from which FSDP+TP at the best real X is bound by arithmetic: alpha² / (M_X·M_Y·F).

    >>> f"{mixed_batch(32768, 2550, 2, 1):.1f} {mixed_batch(32768, 2550, 2, 1) * 4096:.3g} {mixed_batch(13824, 2550, 2, 1):.0f}"
    '99.2 4.06e+05 235'
    """
    return alpha * alpha / (M_X * M_Y * F)


@formula
def chips_limit(B, tokens_each):
    """Chips that a batch of B tokens keeps busy, if each needs `tokens_each`: more of them wait for collectives.

    >>> int(chips_limit(40e6, data_batch(2550, 3)))                 # DeepSeek-V2's batch, data parallel
    47058
    >>> int(chips_limit(16e6, data_batch(2550, 3)))                 # LLaMA-3 70B
    18823
    """
    return B / tokens_each


@formula
def slice_batch(alpha_dcn, pods=inf):
    """Tokens of one slice from which data parallelism over the data-centre network is bound by arithmetic: (1 - 1/pods)·C/W_dcn.

    Backward, a chip of a slice of n takes 8·B·D·F/(n·C). Its part of the gradients, 2·2DF/n bytes, is summed over the pods by
    a ring, or pairwise through the switch: it sends that twice, but for the 1/pods that it has itself, so 2·(1 - 1/pods)·4DF/(n·W_dcn)
    seconds, in one direction while as much comes in. n cancels.

    alpha_dcn  C/W_dcn, W_dcn in one direction: `Chip.alpha_dcn()`
    pods       that the gradients are summed over; two ask for half of what many do

    >>> slice_batch(chip("v5p").alpha_dcn()), f"{2e6 / (2 * 8960):.1f}"      # and tokens of a chip, 2M on two pods
    (73440.0, '111.6')
    >>> slice_batch(chip("v5p").alpha_dcn(), pods=2)
    36720.0
    """
    if plain(pods) and pods < 1:
        raise ValueError(f"gradients are summed over one pod or more, not {pods}")
    return (1 - 1 / pods) * alpha_dcn


@formula
def best_split(B, F, N: Count, M_X=2, M_Y=1) -> tuple[int, ...]:
    """Every whole X, dividing N, whose slower collective is as fast as can be: usually one, both in a tie.

    The search that `X_opt` is a formula for, with M_X and M_Y held fixed.

    >>> best_split(48000, 32768, 64), best_split(3e6, 13824, 4096), best_split(10, 32768, 64)
    ((16,), (1024,), (1,))
    """
    comms = {X: max(F * X / M_X, B * N / X / M_Y) for X in range(1, N + 1) if N % X == 0}
    return tuple(X for X, t in comms.items() if t == min(comms.values()))


@formula
def best_mesh(B: int, D: int, F: int, slice: Slice) -> Mesh:
    """The mesh of whole axes on which a step of the layer by FSDP+TP takes least, all overlapped, then least in a row.

    Each axis of the slice goes to X or to Y. `layout_search` has the same question for a whole model, in estimated seconds.

    >>> best_mesh(48000, 8192, 32768, Slice(chip("v5p"), (4, 4, 4)))
    Mesh(X=16, Y=4)
    """
    sizes, taken = {"B": B, "D": D, "F": F}, {}
    every = Mesh.on(slice, {chr(ord("A") + i): (i,) for i in range(len(slice.shape))})
    alone = Mesh({"A": 1}).wires("A")
    for chosen in product("XY", repeat=len(slice.shape)):
        laid = {a: tuple(w for n, c in zip(every.names, chosen) if c == a for w in every.wires(n)) for a in "XY"}
        mesh = Mesh({a: wires or alone for a, wires in laid.items()})
        if B % mesh["X"] == D % mesh["X"] == D % mesh["Y"] == F % mesh["Y"] == 0:
            both = times("FSDP+TP", B, D, F, mesh, slice.chip)
            taken[mesh] = tuple(significant(sum(seconds)) for seconds in zip(*((t.lower, t.upper) for t in both)))
    if not taken:
        raise ValueError(
            f"no split of {slice.chips} chips over X and Y divides {sizes}: choose sizes with more factors of 2"
        )
    return min(taken, key=taken.__getitem__)
