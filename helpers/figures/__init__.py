"""Live figures and films: what each computes, says and draws, and its script, in one folder of the room of its chapter.

`figure.py` of a folder holds the figure as its page shows it; `{live} name` on a page finds it here.
May import: helpers.live, helpers.plot, helpers.plan, helpers.costs; of this floor, the rooms before its own.
Tests: tests/helpers/figures, where each page is held against helpers.costs.
"""

from importlib import import_module
from pathlib import Path

FILMS = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "gather-matmul",
    "matmul-scatter",
)
MODULES = {
    "rows": "rooflines.rows_on_a_chip.figure",
    "matmul-roofline": "rooflines.matmul_roofline.figure",
    **dict.fromkeys(FILMS, "sharding.collective_films.figure"),
    "sharded-matmul": "sharding.sharded_matmul_costs.figure",
    "explorer": "sharding.sharded_matmul_frames.figure",
    "decoder": "transformers.decoder_sizes.figure",
    "remat": "transformers.remat_film.figure",
    "training-step": "training.step_films.figure",
    "layout": "training.layout_search.figure",
    "day": "training.cluster_of_the_day.figure",
    "serving": "inference.token_price.figure",
    "planner": "inference.planner.figure",
    "speculation": "inference.draft_films.figure",
    "attention": "attention.attention_variants.figure",
    "flash-memory": "attention.block_films.flash_memory",
    "flash-blocks": "attention.block_films.flash_blocks",
    "ring-steps": "attention.block_films.ring_steps",
    "ring-hops": "attention.block_films.ring_hops",
    "two-tier-all-reduce": "racks.hierarchical_film.figure",
    "cluster": "racks.collective_times.figure",
    "expert-dispatch": "experts.dispatch_film.figure",
    "expert-layer": "experts.expert_layer.figure",
}


def figure(name: str):
    """The figure of that name, as `{live} name` puts it on a page."""
    if name not in MODULES:
        raise ValueError(f"there is no live figure {name!r}; there are {', '.join(sorted(MODULES))}")
    module = import_module(f"{__name__}.{MODULES[name]}")
    return module.FIGURES[name] if name in FILMS else module.FIGURE


def source(name: str) -> Path:
    """The file that holds the figure."""
    return Path(__file__).parent.joinpath(*MODULES[name].split(".")).with_suffix(".py")


def scripts() -> dict[str, str]:
    """Every script that a live figure may name in `runners`, as a page gets it: without lines of comment and indents."""
    files = sorted(Path(__file__).parents[1].rglob("*.js"))
    return {path.name: _bare(path.read_text(encoding="utf-8")) for path in files}


def _bare(script: str) -> str:
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"
