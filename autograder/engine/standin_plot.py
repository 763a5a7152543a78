"""Stands for `helpers.plot` where answers run: pictures are not drawn, for nobody looks at them there.

An empty canvas is a real one: what a learner draws on it is his own.
"""


class Picture:
    """A figure's alt text."""

    def __init__(self, figure: object = "", alt: str = "", caption: str = ""):
        self.figure, self.alt, self.caption = figure, alt, caption

    def svg(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"[figure: {self.alt}]"


def _picture(*_, alt: str = "", caption: str = "", **__) -> Picture:
    return Picture(alt=alt, caption=caption)


class Matrix:
    """What `products` draws."""

    def __init__(self, *_, **__):
        pass


absorption = attention_bytes = bars = blocks = blocks_on_cores = chip = combine_tree = cube = _picture
cuts = decoder_stack = divisions = einsum_letters = expert_exchange = experts = flash_tiles = _picture
flow = four_cases = frames = held = host = hosts = kept = kept_over_time = kernels = _picture
kv_heads = layout = levels = linear_forms = lines = masks = online_softmax = page_table = _picture
pages = passing_keys = pipelines = plane = pods = predicted = prefill_and_decode = _picture
product_gradients = products = reuse = ring_or_tree = roofline = routed = served = _picture
shared_heads = shares = softmax_chunks = spans = stacked = step_timelines = systolic = _picture
timeline = torus = tradeoff = transformer_block = trees = warps = work = _picture
accepted = arrivals = attention_layouts = batching = cached_heads = chunks = kept_tokens = pools = ragged = _picture
rolling = sharded_cache = speculation = weights_and_caches = _picture


def __getattr__(name: str):
    """The style and `canvas`, which bring matplotlib."""
    if name not in ("COLOURS", "DASHES", "MARKERS", "STYLE", "canvas"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import picture

    return getattr(picture, name)
