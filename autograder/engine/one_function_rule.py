"""What a program must be to stand for one function on all devices of a mesh.

It comes from a process in which somebody may have written it by hand, and whatever its cuts leave open a compiler fills in
with sends that nobody counts. So nothing is left open: one manual computation over the whole mesh, whose blocks have the
shapes of their cuts, and in it no further word about devices but the collectives that are counted.
"""

import math
import re
from collections.abc import Iterator

from jax.extend.mlir import ir

from .program_data import cuts, outline, typed

UNCOUNTED = {f"stablehlo.{n}" for n in "send recv infeed outfeed collective_broadcast cross-replica-sum".split()}


def must_be_cut(module, axes: dict[str, int], ins: list, out, args: list) -> None:
    """Refuse a program that is not one function on all devices of a mesh, or whose arrays are not cut as these specs say.

    axes  names and sizes of the mesh
    args  shapes and types of what it is given
    """
    must_be_alone(module, axes)
    main = outline(module)
    inner = [op for op in main.ops if op.kind == "sdy.manual_computation"]
    at = dict(zip(main.arguments, map(plain, ins), strict=True))
    if (
        len(inner) != 1
        or inner[0].gives != main.ends
        or any(i in at for op in main.ops if op is not inner[0] for i in op.takes)
    ):
        raise ValueError("the program is not one function on all devices")
    given = zip(inner[0].takes, cuts(inner[0].of["in_shardings"]), strict=True)
    made = cuts(inner[0].of["out_shardings"])
    if any(i in at and _short(how) != at[i] for i, how in given) or any(_short(how) != plain(out) for how in made):
        raise ValueError("the program does not cut its arrays as was asked")
    must_be_manual(module, axes, args)


def plain(spec) -> tuple[tuple[str, ...], ...]:
    """A PartitionSpec as the mesh axes that cut each dimension, without the last ones that nothing cuts.

    >>> from jax import P
    >>> plain(P(None, ("X", "Y"), None))
    ((), ('X', 'Y'))
    """
    return _short(tuple((a,) if isinstance(a, str) else tuple(a or ()) for a in spec))


def _short(how: tuple) -> tuple:
    return _short(how[:-1]) if how and not how[-1] else how


def must_be_alone(module, axes: dict[str, int]) -> None:
    """Refuse a program with devices, meshes or cuts beside those of its one manual computation."""
    count = {n: ir.IntegerAttr(module.operation.attributes[f"mhlo.num_{n}"]).value for n in ("partitions", "replicas")}
    if count != {"partitions": math.prod(axes.values()), "replicas": 1}:
        raise ValueError("the program is made for another number of devices than was asked")
    if any("frontend" in name or "sharding" in name for name in _names(module.operation)):
        raise ValueError("the program cuts its arrays once more than was asked")
    found = 0
    for op in _all(module.operation):
        names = _names(op)
        if op.name == "sdy.mesh":
            if not _same_mesh(op, axes):
                raise ValueError("the program is made for another mesh than was asked")
        elif op.name == "sdy.manual_computation":
            found += 1
        elif (
            op.name.startswith("sdy.")
            and op.name != "sdy.return"
            or op.name == "stablehlo.custom_call"
            and str(op.attributes["call_target_name"]) != '"shape_assertion"'
            or any(n.startswith(("mhlo.", "sdy.", "xla.")) for n in names)
            or op.name == "func.func"
            and any(re.search("sharding|frontend", str(op.attributes[n])) for n in names if n.endswith("_attrs"))
        ):
            raise ValueError("the program cuts its arrays once more than was asked")
        elif op.name in UNCOUNTED:
            raise ValueError(f"nobody can count what {op.name.partition('.')[2]} sends")
        elif "replica_groups" in names and not _plain_groups(op.attributes["replica_groups"], axes):
            raise ValueError("the groups of a collective are no axes of the mesh")
    if found != 1:
        raise ValueError("the program is not one function on all devices")


def must_be_manual(module, axes: dict[str, int], args: list) -> None:
    """Refuse a program whose one manual computation leaves an axis to the compiler, or whose blocks have other shapes."""
    main = next(op for op in _all(module.operation) if op.name == "func.func" and _name(op) == "main")
    given = [typed(a.type) for a in main.regions[0].blocks[0].arguments]
    if given != [(tuple(a.shape), a.dtype) for a in args]:
        raise ValueError("the program takes other arrays than was asked")
    op = next((op for op in _all(main) if op.name == "sdy.manual_computation"), None)
    if op is None or op.operation.parent != main:
        raise ValueError("the program is not one function on all devices")
    manual = str(op.attributes["manual_axes"])
    if not re.fullmatch(r"#sdy<manual_axes\{[^{}:]*\}>", manual) or set(re.findall(r'"([^"]*)"', manual)) != {*axes}:
        raise ValueError("the program leaves axes of the mesh to the compiler")
    block = op.regions[0].blocks[0]
    ends = list(block.operations)[-1].operation.operands
    for whole, local, how in ((op.operands, block.arguments, "in"), (op.results, ends, "out")):
        for a, b, cut in zip(whole, local, cuts(str(op.attributes[f"{how}_shardings"])), strict=True):
            if typed(b.type) != _block(typed(a.type), cut, axes):
                raise ValueError("the blocks of the program have not the shapes of their cuts")


def _block(whole, cut, axes: dict[str, int]):
    """Shape and type of a device's block; nothing if there is none."""
    (shape, dtype), used = whole, [a for names in cut for a in names]
    by = [math.prod(axes.get(a, 0) for a in names) for names in cut]
    if len(by) != len(shape) or len(used) != len({*used}) or not all(n and d % n == 0 for d, n in zip(shape, by)):
        return None
    return tuple(d // n for d, n in zip(shape, by)), dtype


def _same_mesh(op, axes: dict[str, int]) -> bool:
    """Also the way in which newer versions of JAX write it once more."""
    once = ", ".join(f'"{a}"={n}' for a, n in axes.items())
    again = ", ".join(f'{{name = "{a}", size = {n} : i64}}' for a, n in axes.items())
    if str(op.attributes["mesh"]) != f"#sdy.mesh<[{once}]>":
        return False
    return "stablehlo.mesh" not in _names(op) or str(op.attributes["stablehlo.mesh"]) == f"{{axes = [{again}]}}"


def _plain_groups(groups, axes: dict[str, int]) -> bool:
    """Numbers of devices, or whole axes of a mesh of the module."""
    if isinstance(groups, ir.DenseIntElementsAttr):
        return True
    one = "|".join(f'#stablehlo\\.axis_ref<name = "{re.escape(a)}">' for a in axes)
    form = rf"#stablehlo\.replica_group_mesh_axes<mesh = @\w+, axes = \[(({one})(, )?)*\]>"
    return re.fullmatch(form, str(groups)) is not None


def _all(operation) -> Iterator:
    """Every operation inside of one."""
    for region in operation.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from _all(view.operation)


def _names(op) -> list[str]:
    """Names of its attributes: names in newer versions of JAX, pairs in older ones."""
    return [a if isinstance(a, str) else a.name for a in op.attributes]


def _name(op) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
