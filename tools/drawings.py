"""The golden list of what is drawn: python -m tools.drawings

It writes tests/helpers/plot/drawings.txt anew and names what has changed: of each drawing in `DRAWN`, and of each film that a
figure has, how many shapes and words there are, and a digest of all that can be seen, in the drawing's own coordinates to three
digits. After a change of a drawing look at it (`make pictures`), and then write the list.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from helpers import figures, plot
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.ring_attention import work
from helpers.costs.inference.engine_simulation import interleaved
from helpers.costs.racks.cluster import Cluster, hosts, racks, slices
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.gpu_machine import gpu
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.sharded_array import Axis, Mesh
from helpers.costs.training.pipeline_schedules import pipeline
from helpers.costs.transformers.config import MLA, Config
from helpers.costs.transformers.public_models import model
from helpers.kernels.attention import flash_attention, masks
from helpers.kernels.rooflines import systolic_array
from helpers.kernels.training.pipeline_parallel import ticks
from helpers.plot.training.held_and_sent import WAYS

COMMAND = "python -m tools.drawings"
LIST = Path(__file__).resolve().parents[1] / "tests/helpers/plot/drawings.txt"
ALT = "what the picture shows, in words"
LOOKS = "facecolor edgecolor color hatch linestyle linewidth marker markerfacecolor markersize fontsize alpha zorder".split()
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

V5P, H100 = chip("v5p"), chip("H100")
SQUARE, PLAN = Mesh({"X": 2, "Y": 2}), masks.plan(6, 6, 2, 2, masks.CAUSAL)
SHAPE = dict(D=1024, L=3, N=8, F=1, V=1)
HEADS = {"MHA": Config(**SHAPE, H=128, K=8), "GQA": Config(**SHAPE, H=128, K=2)}
HEADS["MLA"] = Config(**SHAPE, H=None, K=8, mla=MLA(None, 512, 128, 64, 128))
CHOICES = [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (2, 1)]
COPIES = [(0, 2), (1, 1), (1, 1), (1, 2), (2, 0), (2, 3), (3, 1), (3, 1)]
MESHES = {"attention": ((("dp", 2), ("tp", 4)), "a"), "experts": ((("edp", 1), ("ep", 8)), "b")}
PATHS = {("I",): "known", ("I", "like"): "known", ("I", "like", "cats"): "read now", ("I", "like", "dogs"): "let go"}
SHARES = {
    "parameters": {"a": {"mlp": 3, "attention": 1}, "b": {"mlp": 1, "experts": 9}},
    "FLOPs": {"a": {"mlp": 2}, "b": {"mlp": 5}},
}
SPECS = ("btd,df->btf", "btnh,bsnh->btsn", "ijkl,ijmno->klmno")
STEPS = [("DP", 1, False), ("DP", 4, True), ("FSDP", 1, False), ("FSDP", 4, True)]


def product() -> list:
    parts = plot.Matrix("A", "$I$", "$J$", (2, 2), (0, 0, None, 1)), "×", plot.Matrix("B", "$J$", "$K$", partial=True)
    return [("one", parts, "under it")]


def served() -> dict:
    log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    return {"interleaved": [(s.lane, s.start, s.end, s.kind, "") for s in (*log.spans, *log.slot_spans())]}


def schedules() -> dict:
    made = {
        name: (ticks(pipeline(name, 4, 8, v)), v)
        for name, v in (("GPipe", 1), ("ZB-H1", 1), ("ZB-H2", 1), ("interleaved", 2))
    }
    return {name: (t.task, t.micro, v) for name, (t, v) in made.items()}


def steps() -> dict:
    return {f"{s} {n} {once}": plot.spans(s, 6, 850 * 64, 8192, 32768, 64, V5P, 3, micro=n, once=once)
            for s, n, once in STEPS}  # fmt: skip


# One drawing or several for each function, with the arguments that matter.
DRAWN: dict[str, Callable] = {
    "absorption": lambda: plot.absorption(ALT),
    "accepted": lambda: plot.accepted([0.5, 0.5, 0.0], [0.5, 0.25, 0.25], "abc", ALT),
    "attention_bytes": lambda: plot.attention_bytes(6, 4, ALT),
    "attention_layouts": lambda: plot.attention_layouts(4, ALT),
    "backward_block": lambda: plot.backward_block(ALT),
    "bars": lambda: plot.bars({"a": 1, "b": 30}, "y", ALT),
    "blocks": lambda: plot.blocks(
        {"rows": (PLAN.shape, PLAN.blocks), "columns": (PLAN.shape, flash_attention.by_columns(PLAN.blocks))}, ALT),
    "blocks_on_cores": lambda: plot.blocks_on_cores(4, ALT),
    "chip": lambda: [plot.chip(chip(name), ALT) for name in ("v5e", "v5p", "v7", "H100", "B200", "A100")],
    "chunks": lambda: plot.chunks(6, 2, ALT),
    "combine_tree": lambda: plot.combine_tree([[1.0, 3.0], [2.0, 0.0], [4.0, 2.0], [1.0, 1.0]], ALT),
    "cube": lambda: plot.cube(ALT, n=4, at=(1, 2, 3)),
    "curves_and_points": lambda: plot.curves_and_points(
        {"a": ([1, 2], [3, 4])}, {"a": ([1], [3.5])}, "x", "y", ALT, level=(4, "a level")),
    "cuts": lambda: plot.cuts(4, 3, ALT),
    "decoder_stack": lambda: plot.decoder_stack(ALT),
    "divisions": lambda: plot.divisions(ALT),
    "einsum_letters": lambda: plot.einsum_letters(SPECS, ALT),
    "expert_exchange": lambda: plot.expert_exchange(4, ALT),
    "expert_loads": lambda: plot.expert_loads({"a run": np.arange(35).reshape(5, 7) ** 2 % 11 + 1}, ALT, level=1.2),
    "flash_tiles": lambda: plot.flash_tiles({"Flash 1": (1, 2), "Flash 2": (1, 2)}, ALT),
    "flow": lambda: plot.flow([["config"], ["formula", "program"], ["equal?"]],
                              [("config", "formula"), ("program", "equal?")], ALT, marked=("program",)),
    "four_cases": lambda: plot.four_cases(ALT),
    "frames": lambda: [plot.frames(getattr(collective_steps, kind)(axis)) for axis in (Axis(4), Axis(5, wraps=False))
                       for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "gather_matmul", "matmul_scatter")],
    "gpu": lambda: [plot.gpu(gpu(name), ALT) for name in ("H100", "A100", "B200")],
    "held": lambda: plot.held([*WAYS], ALT),
    "host": lambda: [plot.host(chip(name), ALT) for name in ("v5e", "v5p", "v7", "H100", "GB200")],
    "hosts": lambda: [plot.hosts(count, H100, "NVLink: much", "its card: little", ALT) for count in (64, 6)],
    "intervals": lambda: plot.intervals({"within": (10.0, 8.0, 9.0, 12.0), "below": (10.0, 4.0, 5.0, 8.0)}, ALT),
    "kept": lambda: plot.kept(ALT),
    "kept_over_time": lambda: plot.kept_over_time(replace(model("llama-3-8b"), L=8), 2048, ("everything", "matmuls", "block"), ALT),
    "kept_tokens": lambda: plot.kept_tokens(8, 4, 3, ALT),
    "kernels": lambda: plot.kernels(ALT),
    "kv_heads": lambda: plot.kv_heads(HEADS, ALT),
    "layout": lambda: [plot.layout(["A[I_X, J_Y]", "A[I_X, J]", "A[I, J] {U_Y}", "A[I_YX, J]"], SQUARE, {"I": 8, "J": 4}),
                       plot.layout("B[J_ZX]", {"X": 2, "Y": 3, "Z": 2})],
    "levels": lambda: plot.levels({"HBM": (8.1e11, "x"), "ICI": (4.5e10, "y")}, "bytes/s", ALT, paler=("ICI",)),
    "linear_forms": lambda: plot.linear_forms(8, 2, ALT),
    "lines": lambda: plot.lines([1, 10], {"a": [1, 2], "b": [3, 2]}, "x", "y", ALT, log="x", marks={"m": 5}),
    "masks": lambda: plot.masks({n: m.array(3, 5) for n, m in {"causal": masks.CAUSAL, "sinks": masks.Mask(True, 2, 1)}.items()}, ALT),
    "on_mesh": lambda: [plot.on_mesh([(a, ""), ("A[I_X, J]", ""), ("A[I, J]", "")], mesh, ALT)
                        for a, mesh in (("A[I_X, J_Y]", SQUARE), ("A[I, J_X]", Mesh({"X": 4})))],
    "online_softmax": lambda: plot.online_softmax([1.0, 3.0, 2.0, 0.0, 4.0, 2.0], ALT),
    "page_table": lambda: plot.page_table({"A": [0, 2], "B": [2, 3]}, {"A": [*"abc"], "B": [*"cde"]}, 4, 2, ALT),
    "passing_keys": lambda: plot.passing_keys(4, ALT),
    "pipelines": lambda: plot.pipelines(schedules(), ALT),
    "plane": lambda: plot.plane([1.0, 2.0, 4.0], [10.0, 100.0, 1000.0], [[y] * 3 for y in (0.1, 1.0, 10.0)], "X", "y", ALT,
                                inside="busy", lines={"best": ([1, 4], [10, 1000])}),
    "pods": lambda: plot.pods(V5P, ALT),
    "predicted": lambda: plot.predicted(
        {"one": [[2.0, 1.0, 4.0], [10.0, 10.0, 5.0]], "two": [[1.0, 3.0, 0.3]]}, ("ours", "rule"), ALT),
    "prefill_and_decode": lambda: plot.prefill_and_decode(4, 2, ALT),
    "product_gradients": lambda: plot.product_gradients(ALT),
    "products": lambda: plot.products(product(), ALT, devices=("0", "1")),
    "ragged": lambda: plot.ragged((3, 48, 17, 9), 8, ALT),
    "rails": lambda: plot.rails(4, 3, ALT),
    "reuse": lambda: plot.reuse(ALT),
    "ring_or_tree": lambda: plot.ring_or_tree(Attention(1, 2**20, N=32, K=8), 8, ALT),
    "rolling": lambda: plot.rolling(4, 2, (3, 10), ALT),
    "roofline": lambda: plot.roofline({"H100": (H100.rate(), H100.hbm_bandwidth)}, {"dot": (3.0, 1e13)}, ALT),
    "routed": lambda: [plot.routed(CHOICES, 4, ALT, factor=factor) for factor in (None, 0.5, 1, 2)],
    "rows_and_times": lambda: [plot.rows_and_times((1, 64, 2048), 8192, 4096, chip(name), ALT) for name in ("H100", "v5e")],
    "served": lambda: plot.served(served(), "s", ALT),
    "sharded_cache": lambda: plot.sharded_cache(
        {"a": "K[B_Z, S, K_Y]", "b": "K[B, S, K_YZ]", "c": "K[B, S_Z, K_Y]"}, Mesh({"Y": 2, "Z": 2}), {"B": 4, "S": 8, "K": 4}, ALT),
    "shards": lambda: plot.shards({"FSDP": "W_in[D_XY, F]", "HSDP": "W_in[D_Y, F]"}, 2, 4, ALT),
    "shares": lambda: plot.shares(SHARES, ALT),
    "softmax_chunks": lambda: plot.softmax_chunks(4, 2, ALT),
    "speculation": lambda: plot.speculation(
        {"some": (("a", "b", "c"), ("a", "x", "y", "z")), "all": (("a",), ("a", "q"))}, ("t",), ALT),
    "stacked": lambda: plot.stacked({"a": {"weights": 2, "optimizer": 8}, "b": {"logits": 1}}, "GB", ALT, marks={"a chip": 9, "two": 18}),
    "step_timelines": lambda: plot.step_timelines(steps(), ALT),
    "systolic": lambda: plot.systolic(list(systolic_array.frames((np.ones((2, 3)), np.ones((3, 2))))), ALT, columns=3),
    "timeline": lambda: plot.timeline({"PCIe, alone": [(0, 2, "a")], "ICI": [(2, 3, "b")], "PCIe, streamed": [(0, 2, "c")]}, "ms", ALT),
    "token_copies": lambda: plot.token_copies(4, 4, (0, 3), COPIES, ALT),
    "tokens_to_experts": lambda: plot.tokens_to_experts([[0, 1], [1, 0]], ALT),
    "torus": lambda: [plot.torus(Slice(chip("v5e"), shape, wraps), (0, 0), (1, 1), ALT)
                      for shape, wraps in (((4, 4), (False, False)), ((4, 4), (True, True)), ((2, 3), (False, True)))],
    "tradeoff": lambda: plot.tradeoff({"4 chips": ([1, 2], [10, 15], ["B=1", "B=2"])}, "ms", "y", ALT),
    "transformer_block": lambda: plot.transformer_block(model("llama-3-70b"), ALT),
    "trees": lambda: plot.trees({"one": PATHS}, ALT),
    "two_meshes": lambda: plot.two_meshes(MESHES, ALT),
    "two_tier_steps": lambda: plot.two_tier_steps(4, 2, ALT),
    "warps": lambda: plot.warps(ALT),
    "wave_rows": lambda: plot.wave_rows({"full": 24, "one more": 25, "many": 61}, 12, ALT),
    "weights_and_caches": lambda: plot.weights_and_caches((4, 8, 2), ALT),
    "wiring": lambda: [
        plot.wiring(c, ALT, switches=switches, spines=spines, side=side)
        for c, switches, spines, side in (
            (hosts("H100", 2), 4, 1, ""), (hosts("H100", 4, group=2, chips=4), 1, 2, ""), (racks("GB200", 1), 18, 1, ""),
            *((hosts("H100", 4, group=2, chips=4), 1, 1, side) for side in ("a chip", "a domain", "a group")),
            (slices("v5e", (4, 4), 2), 1, 1, ""), (slices("v5e", (2, 1), 2), 1, 1, ""), (slices("v5p", (4, 2, 1)), 1, 1, ""),
            (Cluster(Slice(chip("GB200"), (10,)), 2), 1, 1, ""))],
    "work": lambda: plot.work({cut: work(3, 4, cut) for cut in ("contiguous", "striped")}, ALT),
}  # fmt: skip
FILMS = {f"film: {name}": figures.figure(name) for name in figures.MODULES if hasattr(figures.figure(name), "films")}


def rounded(text: str) -> str:
    return NUMBER.sub(lambda number: f"{float(number[0]):.3g}", text)


def digits(numbers) -> str:
    """To three digits, and as zero what is as little as rounding, which is another machine's as well."""
    return str([f"{n:.3g}" for n in np.round(np.ravel(np.ma.filled(np.ma.asarray(numbers, float), -1)), 12) + 0.0])


def looks(artist: Artist) -> Iterator[str]:
    for name in LOOKS:
        value = getattr(artist, f"get_{name}", lambda: "")()
        yield to_hex(value, True) if isinstance(value, tuple) and len(value) == 4 else str(value)


def seen(artist: Artist) -> Iterator[str]:
    """What can be seen of a shape: kind, colours, and where it lies."""
    yield type(artist).__name__
    if isinstance(artist, Text):
        yield f"{artist.get_text()} {digits(artist.get_position())} {artist.get_color()} {artist.get_rotation()} {artist.get_ha()}"
    for name in ("xy", "xy1", "xy2", "_posA_posB"):  # of an arrow, whose path is in pixels
        yield digits(getattr(artist, name, None) or () if name != "xy" or isinstance(artist, Text) else ())
    yield from looks(artist)
    for name in () if isinstance(artist, FancyArrowPatch) else ("path", "data", "paths", "offsets"):
        value = getattr(artist, f"get_{name}", lambda: ())()
        for part in value if name == "paths" else [value]:
            yield digits(getattr(part, "vertices", part))
    if hasattr(artist, "get_patch_transform"):
        yield digits(artist.get_patch_transform().get_matrix())


def shapes(picture: plot.Picture) -> list[str]:
    """All of a picture, a line for each shape and word."""
    if isinstance(picture.figure, str):
        return [rounded(part) for part in picture.figure.split("<")]
    lines = [f"{picture.alt} {picture.figure.get_size_inches()}"]
    for ax in picture.figure.axes:
        limits = digits((*ax.get_xlim(), *ax.get_ylim()))
        ticks = [t.get_text() for t in (*ax.get_xticklabels(), *ax.get_yticklabels())]
        lines.append(
            f"{limits} {ticks} {ax.get_xscale()} {ax.get_yscale()} {ax.get_xlabel()} {ax.get_ylabel()} {ax.axison}"
        )
        lines += [ax.get_title(loc=where) for where in ("left", "center")]
        legend = ax.get_legend()
        lines += [
            " ".join(seen(a))
            for a in (*ax.patches, *ax.lines, *ax.collections, *ax.texts, *(legend.texts if legend else ()))
        ]
        lines += keys(legend) if legend else []
    return lines + [part for legend in picture.figure.legends for part in keys(legend)]


def keys(legend) -> list[str]:
    return [" ".join((t.get_text(), *looks(key))) for t, key in zip(legend.texts, legend.legend_handles, strict=True)]


def line(name: str, parts: list[str]) -> str:
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{name}: {len(parts)}, {digest[:12]}"


def drawing(name: str) -> str:
    """The line of a drawing, or of a film: its words and its frames."""
    if name in DRAWN:
        made = DRAWN[name]()
        return line(name, [part for p in (made if isinstance(made, list) else [made]) for part in shapes(p)])
    figure = FILMS[name]
    parts = [[option, film.said, *(rounded(f"{f.label} {f.text} {film.drawing(f)}") for f in film.frames)]
             for option, film in figure.films.items()]  # fmt: skip
    return line(name, sum(parts, [rounded(figure.html())]))


def main() -> None:
    old, new = (
        LIST.read_text(encoding="utf-8").splitlines() if LIST.is_file() else [],
        [*map(drawing, (*DRAWN, *FILMS))],
    )
    LIST.write_text("\n".join(new) + "\n", encoding="utf-8")
    print("\n".join(x for x in new if x not in old) or "nothing has changed")


if __name__ == "__main__":
    main()
