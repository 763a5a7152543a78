"""What the extension of the search reads out of pages; whether readers are led right is asked of the built site (test_site_search)."""

import pytest

from tests.book.conftest import extension

search = extension("section_search")

PAGE = """
<section id="training"><span id="ch-training"></span><h1>4. Training<a class="headerlink" href="#training">#</a></h1>
 <p>One model.</p>
 <section style="--narrow:1px" id="four-designs"><span id="sec-designs"></span><h2>Four designs</h2>
  <p>Which <math><mi>T</mi></math>?</p>
  <div class="math notranslate"><span class="eqno">(4.7)<a class="headerlink" href="#e">#</a></span><math><mi>unseen</mi></math></div>
  <p id="sec-batched"><strong>Batched.</strong> Pad <strong>all</strong>.</p>
  <p id="sec-plain">No word in bold.</p>
  <p>After them.</p>
  <div class="cell"><div class="cell_input"><pre><span>ppermute</span>(x)</pre></div>
   <div class="cell_output"><pre>1.5</pre><table><tr><td>9</td></tr></table></div></div>
  <details><div class="cell_input"><pre>folded_name</pre></div></details><p><a id="ex-4-1"></a></p></section>
 <section id="exercise-4-1"><h3>Exercise 4.1</h3><script>no()</script><form>not this</form></section>
</section>"""


def test_sections_of_a_page_with_their_anchors_their_prose_and_what_is_around_them():
    found = search.Sections("a.html", PAGE).found
    assert [(s.anchor, search.called(s), " ".join(s.text.split()), s.parent and s.parent.anchor) for s in found] == [
        ("ch-training", "4. Training", "One model.", None),
        ("sec-designs", "Four designs", "Which T? After them.", "ch-training"),
        ("sec-batched", "Batched", "Batched. Pad all.", "sec-designs"),
        ("sec-plain", "Four designs", "No word in bold.", "sec-designs"),
        ("ex-4-1", "Exercise 4.1", "", "ch-training"),
    ]
    assert found[1].code == {"ppermute"} and found[1].equations == ["equation 4.7"]


def test_a_section_is_found_by_each_of_its_labels():
    html = (
        '<section id="used-once"><span id="sec-b"></span><span id="sec-a"></span><h2>Used once</h2><p>x</p></section>'
    )
    (found,) = search.Sections("a.html", f'<section id="t"><h1>T</h1>{html}</section>').found[1:]
    assert (found.anchor, found.labels) == ("sec-a", ["used-once", "sec-b", "sec-a"])


def test_headings_that_a_cell_wrote_go_on_to_the_next():
    found = search.Sections(
        "a.html", '<section id="a"><h1>A</h1><h2 id="b">B</h2><h3 id="c">C</h3><p>c</p><h2 id="d">D</h2>d</section>e'
    ).found
    assert [(s.anchor, s.text, s.parent and s.parent.anchor) for s in found] == [
        ("a", "", None), ("b", "", "a"), ("c", "c", "b"), ("d", "d", "a")
    ]  # fmt: skip


@pytest.mark.parametrize("also, names", [("", []), ("also: RingAttention, KV ring · ", ["RingAttention", "KV ring"])])
def test_an_entry_of_the_glossary(also, names):
    page = (
        '<dt id="term-ring">ring<a class="headerlink" href="#term-ring">#</a></dt><dd><p>Devices in a <em>circle</em>.\n'
        f'<a class="reference internal" href="ch06.html#sec-ring"><span>A ring</span></a> · {also}<span lang="ko">링, 고리*</span>'
        ' · <span lang="zh">环*</span></p>\n</dd>'
    )
    assert search.entries(page) == [
        {
            "anchor": "term-ring",
            "term": "ring",
            "definition": "Devices in a circle.",
            "names": [*names, "링", "고리", "环"],
            "section": ("ch06.html", "sec-ring"),
        }
    ]


def test_chips_and_models_lead_to_their_row_and_to_the_planner():
    hardware = (
        '<thead><tr><th scope="col">chip</th><th scope="col">HBM</th><th scope="col">fp4</th></tr></thead>'
        '<tr id="chip-h200"><th scope="row">H200</th><td>141 GB</td><td>–</td></tr>'
    )
    planner = (
        '<select id="live-planner-chip" name="chip"><option value="H200">H200</option></select>'
        '<select id="live-planner-model"><option value="llama-3-70b" selected>llama-3-70b</option></select>'
    )
    row, chip, model = search.things(hardware, planner)
    assert row[:2] == ["H200", "book/hardware.html#chip-h200"] and row[3] == "FLOPs/s in HBM: 141 GB"
    assert {"NVIDIA H200", "Hopper"} <= set(row[2])
    assert chip[:2] == ["H200 in the planner", "book/planner.html#live-planner?chip=H200"]
    assert model[1] == "book/planner.html#live-planner?model=llama-3-70b" and "llama-3.1-70b" in model[2]
