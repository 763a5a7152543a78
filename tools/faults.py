"""The faults that `tools.planted_faults` plants: each is one edit of one file, and the tests that have to notice."""

import re
from dataclasses import dataclass
from pathlib import Path

END = r"\Z"


@dataclass(frozen=True)
class Fault:
    """An edit, and who has to see it.

    file, old, new  the first place where the regular expression `old` is found becomes `new`; END is the end of the file
    tests           what of CI's tests may run: files, names of tests in them
    only            words that pytest's -k takes
    says            a regular expression that the output of the failing tests has
    python          a version, where the fault shows only there
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    only: str = ""
    says: str = ""
    python: str = ""

    @property
    def site(self) -> bool:
        return self.tests.startswith("tests/book/test_") and any(w in self.tests for w in ("test_pages", "test_site"))

    def plant(self, tree: Path) -> None:
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if not re.search(self.old, text):
            raise SystemExit(f"{self.name}: {self.file} no longer has {self.old!r}")
        path.write_text(re.sub(self.old, lambda _: self.new, text, count=1), encoding="utf-8")


COSTS, KERNELS, TRACE = (
    "helpers/costs/sharding/collectives.py",
    "helpers/kernels/sharding/collectives.py",
    "helpers/trace/jaxpr",
)
CHAPTER, SOLVED = "book/ch01_rooflines.md", "solutions/ch01_rooflines.md"
SAMPLES, ENGINE = "tests/autograder/samples/test_chapters.py", "tests/autograder/engine"
LEAK = "flops = N + (N - 1)                     # products, and the additions between them"

FAULTS = [
    Fault(
        "a wrong number in a cost function",
        COSTS,
        r"nonzero\(2 \* steps\)",
        "nonzero(steps)",
        "tests/book/test_ch02_numbers.py",
    ),
    Fault("an example in a docstring that is wrong", COSTS, "2.33e-05 4.66e-05", "2.33e-05 4.67e-05", COSTS),
    Fault(
        "a kernel that sends twice",
        KERNELS,
        r"(?<=    n = lax\.axis_size\(name\)\n)(?=    return lax\.ppermute)",
        "    x = x + 0 * lax.ppermute(x, name, [(j, j) for j in range(n)])\n",
        "tests/helpers/kernels/sharding/test_collectives.py",
    ),
    Fault(
        "a kernel that computes something else",
        KERNELS,
        r"\(j \+ direction\) % n",
        "(j + 2 * direction) % n",
        "tests/helpers/kernels/sharding/test_collectives.py",
    ),
    Fault(
        "a list of what kernels send that is not theirs",
        "tests/helpers/kernels/sends.txt",
        r"by \+1",
        "by -1",
        "tests/helpers/kernels/test_sends.py",
        "list_says",
    ),
    Fault(
        "a cost and a trace that disagree",
        f"{TRACE}/equation_costs.py",
        r"return 2 \* size\(eqn\.outvars\[0\]\) \* prod\(eqn\.inv",
        "return size(eqn.outvars[0]) * prod(eqn.inv",
        "tests/helpers/kernels/transformers/test_decoder.py",
        "flops_are_those",
    ),
    Fault(
        "a check that reads a learner's names",
        "helpers/check/notebook_cells.py",
        r"scope = ours \| ",
        "scope = ours | theirs | ",
        "tests/helpers/check/test_any_kernel.py",
    ),
    Fault(
        "a machine's fault told as the answer's",
        "helpers/check/raised.py",
        "if by_answer\\(e\\) else unjudged\\(e\\)",
        "",
        "tests/helpers/check/test_raised.py",
        "no_line",
    ),
    Fault(
        "a stub on a page of exercises",
        "book/_ext/stub_text.py",
        r'"raise NotImplementedError\(\)"',
        '"raise"',
        "tests/book/test_exercise_pages.py",
        "nothing_of_cells",
    ),
    Fault(
        "a stored number that is not ours",
        "helpers/check/questions.py",
        r"ROUNDS, 16\)",
        "ROUNDS + 1, 16)",
        "tests/autograder/making/test_shown_cases.py",
        "leads_to",
    ),
    Fault(
        "a live figure that differs from Python",
        "helpers/live/jaxpr_to_javascript.py",
        r'"min": "Math\.min',
        '"min": "Math.max',
        "tests/helpers/figures/test_as_data.py",
        "settings",
    ),
    Fault(
        "a number typed in prose", CHAPTER, END, "\nA v5e reaches 197 TFLOPs/s.\n", "tests/book/test_prose.py", "ch01"
    ),
    Fault(
        "a picture without words",
        CHAPTER,
        END,
        "\n![](_static/site.png)\n",
        "tests/book/test_site.py",
        "sound",
        "picture without words",
    ),
    Fault(
        "a page that asks another host",
        "book/methods.md",
        END,
        '\n<script src="https://example.org/a.js"></script>\n',
        "tests/book/test_site.py",
        "sound",
        "another host",
    ),
    Fault(
        "a contrast that is too low",
        "book/_static/course.css",
        END,
        ".bd-article p { color: #bbb; }\n",
        "tests/book/test_pages.py",
        "ch01_rooflines.html",
        "color-contrast",
    ),
    Fault(
        "a page that scrolls sideways on a phone",
        "book/_static/course.css",
        END,
        ".bd-article h1 { width: 900px; }\n",
        "tests/book/test_pages.py",
        "ch01_rooflines.html",
        r"scrolls sideways: \d+ pixels on 3",
    ),
    Fault(
        "a word that search leads elsewhere",
        "book/glossary.md",
        "`sec-ring` · also: RingAttention",
        "`sec-dense` · also: RingAttention",
        "tests/book/test_site_search.py",
        "lead",
        "ring attention|링 어텐션",
    ),
    Fault(
        "a solution in a released notebook",
        "notebooks/ch01_rooflines/exercises.ipynb",
        "raise NotImplementedError",
        LEAK,
        "tests/notebooks/test_notebooks.py",
        "leaks",
    ),
    Fault(
        "a source that was not released",
        SOLVED,
        "However long the vectors",
        "However long both vectors",
        "tests/notebooks/test_notebooks.py",
        "up_to_date",
    ),
    Fault(
        "an update of the course that empties an answer",
        "autograder/own_work/by_cell.py",
        r"self\._named\(cell, to, cell\.text\)",
        "self._named(cell, to, new.source)",
        "tests/autograder/own_work/test_by_cell.py",
        "answers",
    ),
    Fault(
        "a rescue that knows one side of a conflict",
        "autograder/own_work/rescue.py",
        r"blobs\.get\(2\), blobs\.get\(3\), data",
        "blobs.get(2)",
        "tests/autograder/own_work/test_rescue.py",
        "nothing_is_lost and rebased",
    ),
    Fault(
        "an answer in what is seen of its check",
        SOLVED,
        r"a\.cases\(\(4096,\), \(7, 4\)",
        'a.wrong("no", lambda N, bytes_each=2: (2 * N - 1) / (bytes_each * (2 * N + 1)))\na.cases((4096,), (7, 4)',
        "tests/solutions/test_visible_parts.py",
        "ch01-q01",
        "ch01-q01: <lambda>",
    ),
    Fault(
        "a program that is counted and never run",
        SOLVED,
        r"return program\(f, \*sizes\)\.matmul_flops",
        "return trace.count(f, *matrices(*sizes)).matmul_flops",
        "tests/solutions/test_visible_parts.py",
        "ch01-q20",
        "nobody has run",
    ),
    Fault(
        "a wrong answer that keeps its points",
        "autograder/samples/wrong/ch01_rooflines.yaml",
        r"- N \+ \(N - 1\) -> N \+ N:",
        "- N + (N - 1) -> (N - 1) + N:",
        SAMPLES,
        "mutant and ch01-q01",
    ),
    Fault(
        "a mistake that is named wrongly",
        "helpers/check/likely_mistakes.py",
        r"return list\(dict.fromkeys\(mistake.message for mistake, _ in leading\)\)",
        "return [m.message for m in self.named[-1:]]",
        SAMPLES,
        "mutant and ch01",
    ),
    Fault(
        "a right answer that is refused",
        SOLVED,
        r"f\(3\) < f\(30\) < f\(300\)",
        "f(3) > f(30)",
        SAMPLES,
        "solved and ch01_rooflines",
    ),
    Fault(
        "a blank answer that earns points",
        "helpers/check/answer_checks.py",
        r"round\(earned \* 4\) // 1 / 4 if",
        "max(earned, 1) if",
        SAMPLES,
        "blank",
    ),
    Fault(
        "a hole in the sandbox",
        "autograder/engine/sandbox.py",
        "for source, place in shown:",
        'for source, place in [("/", "/"), *shown]:',
        f"{ENGINE}/test_attacks.py {ENGINE}/test_sandbox.py",
        "files or nowhere",
    ),
    Fault(
        "an attack that wins",
        "autograder/engine/cell_outputs.py",
        r"return 0\.0\n    value",
        "return points\n    value",
        f"{ENGINE}/test_attacks.py",
        "nothing_is_won",
    ),
    Fault(
        "an engine that differs from stock nbgrader",
        "autograder/engine/cell_outputs.py",
        r"min\(max\(value, 0\.0\), points\)",
        "min(max(value, 0.0), points, 1.0)",
        "tests/autograder/samples/test_against_stock.py",
    ),
    Fault(
        "a grade that a kill loses",
        "autograder/grading/records.py",
        r"        replace\(self\.path",
        "        record.written and replace(self.path",
        "tests/autograder/grading/test_resume.py tests/autograder/grading/test_kills.py",
        "middle",
    ),
    Fault(
        "an export that a spreadsheet computes",
        "autograder/lms/tables.py",
        r"FORMULA\.sub\(.*, text\)",
        "text",
        "tests/autograder/lms/test_senders.py",
    ),
    Fault(
        "a submission that is read however large",
        "autograder/grading/intake.py",
        "LARGEST = 20_000_000",
        "LARGEST = 20_000_000_000",
        "tests/autograder/grading/test_intake.py",
    ),
    Fault(
        "a directive that JupyterLab cannot show",
        "autograder/making/myst_to_commonmark.py",
        r'\[\*anchor, "\$\$", \*body',
        '[*anchor, "```{math}", *body',
        "tests/autograder/making/test_myst_to_commonmark.py tests/notebooks/test_notebooks.py",
        "translation or myst",
    ),
    Fault(
        "an import from a higher floor",
        COSTS,
        END,
        "\nfrom helpers.kernels import mesh  # noqa: E402, F401\n",
        "tests/test_imports.py",
    ),
    Fault(
        "an exercise before what it needs",
        CHAPTER,
        r"Exercise 1\.5 <ex-1-5>`, \{ref\}`Exercise 1\.6 <ex-1-6>",
        "Exercise 1.6 <ex-1-6>`, {ref}`Exercise 1.5 <ex-1-5>",
        "tests/book/test_reading_order.py",
        "linked",
    ),  # fmt: skip
    Fault(
        "progress that is written while work is graded",
        "helpers/check/progress.py",
        r'or "NBGRADER_EXECUTION" in os\.environ',
        "",
        "tests/helpers/check/test_progress.py",
        "sits",
    ),  # fmt: skip
    Fault("a file that is too long", "helpers/show.py", END, "# \n" * 400, "tests/test_style.py", "small"),
    Fault(
        "a name that nobody uses",
        "helpers/show.py",
        END,
        "\n\ndef unused():\n    x = 1\n",
        "tests/test_style.py",
        "ruff",
    ),
    Fault(
        "an action that is not pinned",
        ".github/workflows/publish.yml",
        r"checkout@[0-9a-f]{40}  # v[\d.]+",
        "checkout@v4",
        "tests/book/test_workflows.py",
    ),
    Fault(
        "a module that another Python lacks",
        "helpers/show.py",
        END,
        "\nfrom locale import resetlocale  # noqa: E402, F401\n",
        "helpers/show.py",
        says="cannot import name 'resetlocale'",
        python="3.13",
    ),
    Fault(
        "a program's deepest file",
        "helpers/numeric.py",
        r"reduce\(xp\.minimum",
        "reduce(xp.maximum",
        "tests/helpers/costs",
    ),
    Fault(
        "an exercise's deepest file",
        "autograder/making/data_line.py",
        r'float\(found\["points"\]\)',
        'float(found["minutes"])',
        "tests/solutions",
    ),
    Fault(
        "grading's deepest file",
        "autograder/engine/cell_names.py",
        r"program is not None and all\(",
        "program is not None and any(",
        "tests/autograder/engine tests/autograder/grading",
    ),
    Fault("the site's deepest file", "helpers/costs/rooflines/hardware.py", '"gpu": 3e-6', '"gpu": 4e-6', "tests/book"),
]
