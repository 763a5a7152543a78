"""Our count beside XLA's: equal on straight-line programs, and every difference explained."""

from functools import cache
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from helpers import trace
from helpers.kernels.mesh import mesh
from tests.helpers.trace.counted import arr


def attention(q, k, v):
    s = jnp.einsum("bqh,bkh->bqk", q, k) / 8
    return jnp.einsum("bqk,bkh->bqh", jax.nn.softmax(s), v)


def norm_mlp(x, w, v):
    x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return jax.nn.relu(x @ w) @ v


def conv(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


STRAIGHT = {
    "matmul": (jnp.matmul, arr(128, 256), arr(256, 64)),
    "batched": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), arr(4, 32, 64), arr(4, 64, 16)),
    "mlp": (norm_mlp, arr(64, 128), arr(128, 512), arr(512, 128)),
    "attention": (attention, arr(4, 128, 64), arr(4, 128, 64), arr(4, 128, 64)),
    "conv": (conv, arr(2, 8, 16, 16), arr(16, 8, 3, 3)),
    "mlp gradient": (jax.grad(lambda *a: jnp.sum(norm_mlp(*a)), (0, 1, 2)), arr(64, 128), arr(128, 512), arr(512, 128)),
    "attention gradient": (jax.grad(lambda *a: jnp.sum(attention(*a)), (0, 1, 2)), *[arr(4, 128, 64)] * 3),
    "conv gradient": (jax.grad(lambda *a: jnp.sum(conv(*a) ** 2), (0, 1)), arr(2, 8, 16, 16), arr(16, 8, 3, 3)),
}


@pytest.mark.parametrize("name", STRAIGHT)
@pytest.mark.sample(quick=3, slow=3)
def test_xla_agrees_on_straight_line_programs(name):
    f, *args = STRAIGHT[name]
    c = trace.compare(f, *args)
    assert c.xla.flops == pytest.approx(c.ours.flops, rel=0.03) and c.ratio == pytest.approx(1, abs=0.03)
    assert not any("FLOPs" in r for r in c.reasons)
    assert c.bodies_once == c.per_device == c.ours.flops and c.xla.devices == 1


def test_elementwise_and_reductions_agree_exactly():
    c = trace.compare(jax.nn.softmax, arr(256, 256))
    assert c.xla.transcendentals == c.ours.transcendentals
    assert c.xla.flops == c.ours.flops - c.ours.transcendentals
    assert any("apart from FLOPs" in r for r in c.reasons)


def test_a_loop_body_is_counted_once_and_the_reason_says_so():
    f = lambda x, ws: lax.scan(lambda x, w: (x @ w, None), x, ws)[0]  # noqa: E731
    c = trace.compare(f, arr(64, 128), arr(6, 128, 128))
    assert c.ours.flops == 6 * c.bodies_once and c.xla.flops == pytest.approx(c.bodies_once, rel=0.03)
    assert "XLA counts the body of a loop once; it runs 6 times." in c.reasons


def test_selecting_and_converting_are_named_when_they_make_the_difference():
    c = trace.compare(lambda x: jnp.where(x > 0, x, 1.0), arr(256, 256))
    assert c.ours.flops == 0 and c.xla.flops == 2 * 256**2 and c.ratio is None
    assert any("comparing, selecting" in r for r in c.reasons)


def test_doubts_reach_the_table():
    c = trace.compare(lambda x: lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ x, x), arr(8, 8))
    assert any("does not say how often" in r for r in c.reasons) and "does not say" in str(c)


def test_per_device_figures_of_eight_devices():
    m, (ins, out) = mesh((4, 2), ("X", "Y")), ((jax.P("X", None), jax.P(None, "Y")), jax.P("X", "Y"))
    args = [jax.ShapeDtypeStruct((256, 256), jnp.float32, sharding=jax.NamedSharding(m, p)) for p in ins]
    f = jax.shard_map(jnp.matmul, mesh=m, in_specs=ins, out_specs=out)
    for g in (f, jax.jit(jnp.matmul, out_shardings=jax.NamedSharding(m, out))):
        c = trace.compare(g, *args)
        assert c.ours.flops == 2 * 256**3 and c.xla.devices == 8, c
        assert c.per_device == c.ours.flops / 8 and abs(c.xla.flops / c.per_device - 1) < 0.03, c
        assert "XLA counts what one device does; there are 8." in c.reasons and "FLOPs, one device" in str(c)


@cache
def compiled_square():
    return jax.jit(lambda x: x @ x).lower(arr(4, 4)).compile()


class Said:
    """A jitted function whose compiler says what the test tells it to."""

    def __init__(self, cost):
        self.cost = cost

    def __call__(self, x):
        return x @ x

    def lower(self, *args):
        real, cost = compiled_square(), self.cost

        class Compiled:
            input_shardings, output_shardings = real.input_shardings, real.output_shardings
            cost_analysis = staticmethod(lambda: cost)

        return type("Lowered", (), {"compile": staticmethod(lambda: Compiled)})


@pytest.mark.parametrize(("cost", "flops", "moved"), [
    ({"flops": 5.0, "bytes accessed": 7.0}, 5, 7),
    ([{"flops": 5.0, "bytes accessed": 7.0}], 5, 7),
    ({"bytes accessed": 7.0}, 0, 7),
    ({"flops": -1.0, "bytes accessed": 7.0}, None, 7),
    ({}, None, None),
    (None, None, None),
    ([], None, None),
])  # fmt: skip
def test_every_shape_of_cost_analysis_is_read(cost, flops, moved):
    x = trace.xla(Said(cost), arr(4, 4))
    assert (x.flops, x.bytes) == (flops, moved)
    c = trace.compare(Said(cost), arr(4, 4))
    assert str(c) and c._repr_html_() and (flops is not None or "XLA gives no FLOPs for this machine." in c.reasons)


class Table(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scopes, self.rows = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.rows += tag == "tr"
        self.scopes += [dict(attrs).get("scope")] if tag == "th" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_a_well_formed_table_with_headers():
    c = trace.compare(lambda x: jnp.where(x > 0, x, 1.0), arr(16, 16))
    page = Table()
    page.feed(c._repr_html_())
    assert page.open == [] and page.rows == 1 + len(c.rows()) and set(page.scopes) == {"col", "row"}
    assert "<li>" in c._repr_html_()
