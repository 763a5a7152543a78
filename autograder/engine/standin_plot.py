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


absorption = attention_bytes = bars = blocks = chip = decoder_stack = einsum_letters = expert_exchange = _picture
flow = four_cases = frames = held = host = kept_over_time = kv_heads = layout = levels = lines = masks = _picture
page_table = pages = pipelines = plane = predicted = prefill_and_decode = product_gradients = products = _picture
roofline = routed = served = shares = softmax_chunks = stacked = systolic = timeline = torus = tradeoff = _picture
transformer_block = trees = work = _picture


def __getattr__(name: str):
    """The style and `canvas`, which bring matplotlib."""
    if name not in ("COLOURS", "DASHES", "MARKERS", "STYLE", "canvas"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import picture

    return getattr(picture, name)
