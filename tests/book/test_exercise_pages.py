"""Pages of exercises read as exercises: nothing of cells and checks, all of what is asked, and numbers that can be tried."""

import json
import re
from functools import cache

import pytest

from autograder.making import in_process_grading, tried_numbers
from autograder.places import Tree
from tests.book.conftest import ROOT, extension
from tests.tiers import some

pages, stub_text = extension("exercise_pages"), extension("stub_text")

TOPICS = [path.stem for path in Tree().exercises]
CELLS = re.compile(
    r"NotImplementedError|YOUR (?:CODE|ANSWER)|Shift\+Enter|\bValidate\b|\bcheck\.\w|\b(?:The|A|this) check\b"
    r"|\b(?:next|folded|this|last|check) cells?\b|\bcells? (?:below|under)\b|stored: compiled"
)


@cache
def parts(topic: str) -> list[str]:
    """The Markdown of a page, as the extension hands it to Sphinx."""
    text = Tree().released(topic).read_text(encoding="utf-8")
    return [c["source"] for c in json.loads(pages.page(text, f"notebooks/{topic}/exercises"))["cells"]]


def exercises(topic: str) -> dict[str, str]:
    """Number -> all that the page says of an exercise."""
    found, number = {}, None
    for part in parts(topic):
        if heading := pages.HEADING.search(part):
            number = heading[1]
        elif part.startswith("## "):
            number = None
        if number:
            found[number] = f"{found.get(number, '')}{part}\n"
    return found


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.sample(quick=2)
def test_a_page_says_nothing_of_cells_and_checks(topic):
    released = Tree().released(topic).read_text(encoding="utf-8")
    assert CELLS.search(released)  # so this can fail
    text = "\n".join(parts(topic))
    assert not (found := CELLS.search(text)), text[max(0, found.start() - 80) : found.end() + 40]


@pytest.mark.parametrize("topic", TOPICS)
def test_every_exercise_has_all_of_its_parts(topic):
    nb = json.loads(Tree().released(topic).read_text(encoding="utf-8"))
    asked = re.findall(r"^### Exercise (\S+)", "\n".join("".join(c["source"]) for c in nb["cells"]), re.M)
    assert [*exercises(topic)] == asked
    for number, text in exercises(topic).items():
        head = re.search(r"^### .+\n\n(★.+)\n\n(?:Assume: .+\n\n)?(.+)", text, re.M)
        assert head and " min · " in head[1] and "point" in head[1] and len(head[2]) > 20, number
        assert "```python\n" in text or "graded by hand" in head[1], number
        assert text.count('<p class="answer-in">') == 1 and text.count("<details>") >= 2, number
        for code in re.findall(r"```python\n(.*?)\n```", text, re.S):
            assert compile(code, number, "exec") and "### " not in code
            assert all(
                len(line) <= stub_text.WIDTH for line in code.split("\n") if line.startswith(("def ", ") ->"))
            ), number


def test_a_table_has_a_case_of_the_check_and_a_place_for_a_number():
    text = exercises("ch01_rooflines")["1.4"]
    assert "<td>249.386</td>" in text and len(re.findall(r'data-hash="[0-9a-f]{32}"', text)) == 2
    assert 'data-salt="ch01-q04-check 0 "' in text and "plot" not in exercises("ch01_rooflines")["1.6"]
    assert 'alt="A roof rises to a knee' in exercises("ch01_rooflines")["1.19"]  # the question is about this picture


def test_given_code_keeps_what_is_needed_and_loses_what_it_prints():
    assert stub_text.given("A = 1  # one\nprint(A)\nA + 1") == "A = 1  # one"
    assert (
        stub_text.signature("X = 2\n\ndef f(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()")
        == "X = 2\n\ndef f(x): ..."
    )
    wide = (
        "def f(" + ", ".join(f"number_{i}: tuple[int, ...]" for i in range(6)) + ") -> dict[str, float]:\n    return {}"
    )
    assert max(map(len, stub_text.fitted(wide).split("\n"))) < 40 and stub_text.fitted(wide).endswith("return {}")


@pytest.mark.parametrize("topic", TOPICS)
def test_the_built_page_is_the_same(site, topic):
    html = (site / f"notebooks/{topic}/exercises.html").read_text(encoding="utf-8")
    body = re.sub(r"<[^>]+>", "", html[html.index("<article") : html.index("</article")])
    assert not CELLS.search(body)
    links = re.findall(
        r'<p class="answer-in"><a href="([^"]+)">Answer (\S+) in Colab</a> or <a href="#own-machine">', html
    )
    assert [number for _, number in links] == [*exercises(topic)] and 'id="own-machine"' in html
    assert all(f"/notebooks/{topic}/exercises.ipynb#scrollTo=ch" in address for address, _ in links)
    assert html.count("try_numbers.js") == 1 and "course" in body.partition("make env")[2][:40]


def test_only_pages_of_exercises_and_of_review_load_the_script(site):
    loads = {p.relative_to(site).as_posix() for p in site.rglob("*.html") if "try_numbers.js" in p.read_text("utf-8")}
    assert {name.split("/")[0] for name in loads - {"book/review.html"}} == {"notebooks"}
    script = (ROOT / "book/_static/try_numbers.js").read_text(encoding="utf-8")
    assert f"rounds = {tried_numbers.ROUNDS}," in script


def first_try(topic: str, grade_id: str) -> dict[str, float]:
    """Our numbers for the first inputs to try, from the cell's own metadata."""
    cells = json.loads(Tree().released(topic).read_text(encoding="utf-8"))["cells"]
    found = next(
        c["metadata"]["course"] for c in cells if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )
    args = [float(t.replace(",", "")) for t in found["numbers"][0]["given"]]
    return tried_numbers.entries(in_process_grading.names(topic)[found["answer"]](*args))


def test_numbers_are_tried_by_keyboard(visit):
    """A right one, a wrong one, one that is none, then a mended one: said in the status, marked at the field."""
    page = visit("notebooks/ch01_rooflines/exercises.html")
    form = page.locator("form.cases").nth(1)  # 1.2: (lower, upper, bound)
    right = first_try("ch01_rooflines", "ch01-q02-check")
    fields, status = form.locator("input"), form.get_by_role("status")
    assert fields.count() == 4 and fields.nth(0).get_attribute("aria-label") == "try 1, lower"
    fields.nth(0).focus()
    page.keyboard.press("Enter")
    page.wait_for_function("e => e.textContent.includes('Type a number')", arg=status.element_handle())
    page.keyboard.type(f"{right['1']:.3g}")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "try 1, upper"
    page.keyboard.type(f"{right['2'] * 1.1:.3g}")
    page.keyboard.press("Enter")
    page.wait_for_function("e => e.textContent.includes('upper')", arg=status.element_handle())
    assert status.text_content() == "try 1, lower: right. try 1, upper: not this."
    assert [fields.nth(i).get_attribute("aria-invalid") for i in (0, 2)] == [None, "true"]
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("1,5 ms")
    page.keyboard.press("Enter")
    page.wait_for_function("e => e.textContent.includes('not a number')", arg=status.element_handle())
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(f"{right['2']!r}")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.wait_for_function("e => e.textContent.endsWith('upper: right.')", arg=status.element_handle())
    assert fields.nth(2).get_attribute("aria-invalid") is None and visit.errors == [] and visit.asked == []


SPELLINGS = "{x!r}|{x:.4e}|{x:.3g}| +{x:.6f} |{n}/1e9|{m:.4f}×10^{e}|{m:.4f}*10**{e}|{m:.4f} · 10^({e})".split("|")


def test_a_number_is_understood_however_it_is_written(visit):
    page = visit("notebooks/ch01_rooflines/exercises.html")
    form, x = page.locator("form.cases").first, first_try("ch01_rooflines", "ch01-q01-check")[""]
    mantissa, power = f"{x:.9e}".split("e")
    field, status = form.locator("input").first, form.get_by_role("status")
    wrong = ["inf", "-{x!r}", "{y!r}", "{n}"]
    for i, spelling in enumerate([*SPELLINGS, *wrong]):
        typed = spelling.format(x=x, y=x * 1.02, n=round(x * 1e9), m=float(mantissa), e=int(power))
        field.fill(typed)
        status.evaluate("e => { e.textContent = '' }")
        field.press("Enter")
        page.wait_for_function("e => e.textContent", arg=status.element_handle())
        assert status.text_content() == f"try 1, result: {'right' if i < len(SPELLINGS) else 'not this'}.", typed


def test_every_stored_number_is_right_on_the_page(visit):
    """Fields of a whole chapter, filled with our numbers: what Python hashed the browser finds."""
    topic = "ch06_attention"
    page, names = visit(f"notebooks/{topic}/exercises.html"), in_process_grading.names(topic)
    cells = json.loads(Tree().released(topic).read_text(encoding="utf-8"))["cells"]
    found = [c["metadata"]["course"] for c in cells if c["metadata"].get("course", {}).get("numbers")]
    forms = page.locator("form.cases:has(input)")
    assert forms.count() == len(found)
    for at in some(range(len(found)), 4):
        form, course = forms.nth(at), found[at]
        wanted = []
        for entry, _ in course["results"]:
            for one in course["numbers"]:
                if entry in one["hashes"]:
                    args = [
                        None if t == "None" else int(t.replace(",", "")) if re.fullmatch(r"[\d,]+", t) else float(t)
                        for t in one["given"]
                    ]
                    wanted.append(tried_numbers.entries(names[course["answer"]](*args))[entry])
        for i, x in enumerate(wanted):
            form.locator("input").nth(i).fill(f"{x:.4g}")
        form.get_by_role("button", name="Compare").click()
        page.wait_for_function("e => e.textContent", arg=form.get_by_role("status").element_handle())
        assert form.get_by_role("status").text_content().count(": right.") == len(wanted)


def test_without_javascript_the_inputs_are_a_plain_table(visit):
    page = visit("notebooks/ch01_rooflines/exercises.html", javascript=False)
    form = page.locator("form.cases").first
    assert form.locator("td", has_text="?").count() == 2 and page.locator("form.cases :is(input, button)").count() == 0


def test_where_nothing_can_be_hashed_the_page_says_so(visit, site):
    page = visit("notebooks/ch01_rooflines/exercises.html")
    page.add_init_script("Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined })")
    page.reload()
    assert "Here it cannot" in page.locator("#cannot-try").text_content()
    assert page.locator("form.cases input").count() == 0
