"""A layout of which a part is given: the search completes it, and names the nearest change where it does not fit (chapter 4).

Frameworks count the chips of experts in another way. Here ep shares the batch beside fsdp and dp, and a group of ep·tp chips shares
the experts. Megatron-LM's ep lies over the chips that tp and dp have anyway, etp·ep·edp = tp·cp·dp (Liu et al. 2025, "MoE Parallel
Folding"): there ep is all of those that share the experts, and dp has ours in it.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.transformers.config import Config

from .layout import AXES, BF16, GRAMMAR, Layout, Spelling
from .layout_search import KEPT, SEARCHED, Ranking, ranking
from .layout_set import SENTENCES, check
from .operation_seconds import TUNED, Software

FOLDED = "etp"  # that it is given says that ep and dp are Megatron-LM's; experts stay whole, so it is 1
PARTIAL = GRAMMAR | {FOLDED: Spelling(1, ("1",))}
UNSHARED = "ep={ep} chips for experts are no multiple of tp={tp}: here every chip of tp has experts of its own."
# In this order they are changed where a layout does not fit.
LOOSENED = ("policy", "microbatches", "zero", "v", *AXES[::-1])


@formula
def unfolded(axis_sizes: Mapping, chips: int) -> dict:
    """Typed sizes in the axes of `Layout`: as Megatron-LM counts if it has etp, or if the axes could not multiply to the chips.

    >>> unfolded({"tp": 8, "pp": 4, "ep": 16}, 64), unfolded({"tp": 2, "pp": 16, "ep": 64, "dp": 32}, 1024)
    ({'tp': 8, 'pp': 4, 'ep': 2}, {'tp': 2, 'pp': 16, 'ep': 32, 'dp': 1})
    >>> unfolded({"tp": 2, "ep": 8, "fsdp": 4}, 64)                                   # as they are: 2·8·4 = 64
    {'tp': 2, 'ep': 8, 'fsdp': 4}
    >>> unfolded({"tp": 8, "ep": 4, "etp": 1}, 64)
    Traceback (most recent call last):
    ValueError: ep=4 chips for experts are no multiple of tp=8: here every chip of tp has experts of its own.
    """
    values = {name: x for name, x in axis_sizes.items() if name != FOLDED}
    taken = prod(values.get(axis, 1) for axis in AXES)
    if "ep" not in values or (FOLDED not in axis_sizes and chips % taken == 0):
        return values
    tp, ep = values.get("tp", 1), values["ep"]
    if ep % tp:
        raise ValueError(UNSHARED.format(ep=ep, tp=tp))
    values["ep"] = ep // tp
    shares = next((axis for axis in ("dp", "fsdp") if values.get(axis, 1) % values["ep"] == 0 and axis in values), None)
    if shares:
        values[shares] //= values["ep"]
    return values


@record
class Completed:
    """A layout of which a part was given.

    layout  all of it
    chosen  the names that were not given and are not as they are by default
    nearest  if it does not fit, what does and differs in the least important name; else None
    """

    layout: Layout
    chosen: tuple[str, ...]
    nearest: Layout | None = None


@formula(signed="T tokens")
def completed_layout(
    c: Config, fixed: Mapping, tokens, T, slice: Slice, template: Layout, software: Software = TUNED
) -> Completed:
    """The fastest layout that has what is fixed, of those that fit, or the one that lacks least; ValueError, in one sentence, if
    what is fixed breaks a rule.

    fixed     names of GRAMMAR with their values, as `unfolded` leaves them
    template  what it has besides: pods, what is stored

    >>> case = model("llama-3-70b"), {"tp": 8, "pp": 4}, 2**20, 4096, Slice(chip("H100"), (8,)), Layout(pods=8)
    >>> found = completed_layout(*case)
    >>> str(found.layout), found.chosen
    ('fsdp=2 tp=8 pp=4 pods=8 microbatches=32 v=4 policy=everything', ('fsdp', 'microbatches', 'v', 'policy'))
    """
    free = {name: x for name, x in fixed.items() if name not in (*SEARCHED, "policy", "pods")}
    template = replace(template, **free)
    # Who names more than sizes has a framework, and with it "selective"; a page, where no more can be named, tries what it ranks.
    tried = KEPT if replace(template, pods=1, stored=BF16) == Layout() else (*KEPT, "selective")
    if listed := template.device_layers:
        fixed = {"pp": len(listed)} | fixed
        if (len(listed), sum(listed)) != (fixed["pp"], c.L):
            laid = replace(template, pp=fixed["pp"])
            raise ValueError(SENTENCES["layers"].format(a=laid, c=c, listed=sum(listed), devices=len(listed)))

    def search(sizes: Mapping) -> Ranking:
        policies = (sizes["policy"],) if "policy" in sizes else tried
        searched = {name: x for name, x in sizes.items() if name in SEARCHED}
        return ranking(c, tokens, T, slice, template, policies, searched, software)

    found, defaults = search(fixed), replace(template, **{name: x for name, x in fixed.items() if name != "pods"})
    if not len(found):
        check(c, replace(defaults, stored=BF16), tokens, T, slice)
        return Completed(defaults, ())
    layout, nearest = found.layout(0), None
    chosen = tuple(name for name in GRAMMAR if getattr(layout, name) != getattr(defaults, name))
    if not found.fits:
        for name in filter(fixed.__contains__, LOOSENED):
            other = search({key: x for key, x in fixed.items() if key != name})
            if other.fits:
                nearest = other.layout(0)
                break
    return Completed(layout, chosen, nearest)
