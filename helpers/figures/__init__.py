"""Live figures and films: what each computes, says and draws, in the room of its chapter; a folder where it has a script or parts.

`FIGURE`, of a folder in its `figure.py`, is the figure as its page shows it; `{live} name` on a page finds it here.
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
    "rows": "rooflines.rows_on_a_chip",
    "matmul-roofline": "rooflines.matmul_roofline",
    **dict.fromkeys(FILMS, "sharding.collective_films"),
    "explorer": "sharding.explorer.figure",
    "decoder": "transformers.decoder_sizes.figure",
    "remat": "transformers.remat_film",
    "training-step": "training.step_films",
    "day": "training.cluster_of_the_day.figure",
    "planner": "inference.planner.figure",
    "attention": "attention.forms_side_by_side",
    "flash-memory": "attention.flash_memory_film",
    "ring-steps": "attention.ring_film",
    "cluster": "racks.collective_times.figure",
    "expert-dispatch": "experts.dispatch_film",
    "expert-layer": "experts.expert_layer",
}


def figure(name: str):
    """The figure of that name, as `{live} name` puts it on a page."""
    if name not in MODULES:
        raise ValueError(f"there is no live figure {name!r}; there are {', '.join(sorted(MODULES))}")
    module = import_module(f"{__name__}.{MODULES[name]}")
    return module.FIGURES[name] if hasattr(module, "FIGURES") else module.FIGURE


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
