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


absorption = accepted = attention_bytes = attention_layouts = backward_block = bars = _picture
blocks = on_mesh = rows_and_times = _picture
blocks_on_cores = chip = chunks = combine_tree = cube = curves_and_points = cuts = _picture
decoder_stack = divisions = einsum_letters = expert_exchange = expert_loads = flash_tiles = flow = four_cases = _picture
frames = gpu = held = host = hosts = intervals = kept = kept_over_time = kept_tokens = kernels = kv_heads = layout = (
    _picture
)
levels = linear_forms = lines = masks = online_softmax = page_table = passing_keys = pipelines = _picture
plane = pods = predicted = prefill_and_decode = product_gradients = products = ragged = rails = _picture
reuse = ring_or_tree = rolling = roofline = routed = served = sharded_cache = shards = _picture
shares = softmax_chunks = spans = speculation = stacked = step_timelines = systolic = _picture
timeline = token_copies = tokens_to_experts = torus = tradeoff = transformer_block = trees = _picture
two_meshes = two_tier_steps = warps = wave_rows = _picture
weights_and_caches = wiring = work = _picture


def __getattr__(name: str):
    """The style and `canvas`, which bring matplotlib."""
    if name not in ("COLOURS", "DASHES", "MARKERS", "STYLE", "canvas"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import picture

    return getattr(picture, name)
