"""What honest students do to their notebooks: each function changes one with right answers, which must lose nothing."""

import copy

from tests.autograder.attacks.edits import answers, cell, code, grade_id, graded, named, typed

TAKEN = ("ch01-q01", "ch01-q02", "ch01-q04", "ch01-q05")


def at(nb, name):
    return nb["cells"].index(cell(nb, name))


def answer_deleted_and_written_below(nb):
    for name in TAKEN:
        i = at(nb, name)
        nb["cells"][i + 1 : i + 2] = [nb["cells"][i + 1], code(nb["cells"][i]["source"])]
        del nb["cells"][i]


def stub_left_answer_in_a_new_cell(nb):
    for name in TAKEN:
        i = at(nb, name)
        source = nb["cells"][i]["source"]
        head = source[: source.index(":\n") + 1] + "\n    " if "def " in source else ""
        nb["cells"][i]["source"] = f"{head}# YOUR CODE HERE\n{'    ' if head else ''}raise NotImplementedError()"
        nb["cells"].insert(i + 1, code(source))


def answers_in_one_cell_at_the_top(nb):
    made = code("\n\n".join(cell(nb, name)["source"] for name in TAKEN))
    nb["cells"] = [made, *(c for c in nb["cells"] if grade_id(c) not in TAKEN)]


def split_answer(nb):
    """JupyterLab gives both halves the metadata of the whole."""
    i = at(nb, "ch01-q01")
    first, second = nb["cells"][i], copy.deepcopy(nb["cells"][i])
    first["source"] = "def divided(V, W):\n    return V / W"
    second["source"] = "def seconds(V, W):\n    return divided(V, W)"
    nb["cells"].insert(i + 1, second)


def merged_with_its_check(nb):
    i = at(nb, "ch01-q01")
    nb["cells"][i]["source"] += "\n\n" + nb["cells"].pop(i + 1)["source"]


def merged_with_the_next_answer(nb):
    i, j = at(nb, "ch01-q01"), at(nb, "ch01-q02")
    nb["cells"][i]["source"] += "\n\n\n" + nb["cells"].pop(j)["source"]


def answers_as_markdown(nb):
    for name in TAKEN:
        typed(cell(nb, name), "markdown")


def text_answer_as_code(nb):
    typed(cell(nb, "ch01-q03"), "code")


def answers_moved_to_the_end(nb):
    moved = answers(nb)
    nb["cells"] = [c for c in nb["cells"] if c not in moved] + moved


def stub_duplicated_after(nb):
    i = at(nb, "ch01-q01")
    again = copy.deepcopy(nb["cells"][i])
    doc = '"""Seconds for V bytes at W bytes/s."""'
    again["source"] = f"def seconds(V, W):\n    {doc}\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    nb["cells"].insert(i + 1, again)


def first_try_kept_above(nb):
    i = at(nb, "ch01-q01")
    nb["cells"].insert(i, copy.deepcopy(nb["cells"][i]) | {"source": "def seconds(V, W):\n    return V * W"})


def helpers_in_own_cells(nb):
    i = at(nb, "ch01-q01")
    nb["cells"][i]["source"] = "def seconds(V, W):\n    return ratio(V, W)"
    nb["cells"].insert(i, code("def ratio(a, b):\n    return a / b"))


def magics(nb):
    cell(nb, "ch01-q01")["source"] = "%%time\n" + cell(nb, "ch01-q01")["source"]
    longer = cell(nb, "ch01-q02")
    longer["source"] = f"%matplotlib inline\n!pip install numpy\n{longer['source']}\n%timeit longer(1, 2)\n"
    cell(nb, "ch01-q04")["source"] = "?print\nprint?\nspeed = 42.5\n%who"
    cell(nb, "ch01-q05")["source"] = "%%capture out\n" + cell(nb, "ch01-q05")["source"]
    nb["cells"].insert(3, code("%%bash\nls -la"))
    lines = "%load_ext autoreload\n%autoreload 2\nfiles = !ls\nget_ipython().run_line_magic('pwd', '')"
    nb["cells"].insert(3, code(lines))


def own_cells_that_fail(nb):
    for name in TAKEN:
        nb["cells"].insert(at(nb, name), code("1 / 0"))
    nb["cells"].insert(2, code("def ("))


def own_cell_that_is_slow(nb):
    nb["cells"].insert(at(nb, "ch01-q02"), code("import time\ntime.sleep(0.5)\nkept = 1"))
    cell(nb, "ch01-q02")["source"] = "assert kept\n" + cell(nb, "ch01-q02")["source"]


def warnings_on_stderr(nb):
    cell(nb, "ch01-q01")["source"] += "\nimport sys, warnings\nprint('careful', file=sys.stderr)\nwarnings.warn('old')"
    cell(nb, "ch01-q02")["source"] = (
        "import warnings, sys\n\n\ndef longer(a, b):\n    warnings.warn('x')\n    print('y', file=sys.stderr)\n"
        "    return max(a, b), max(a, b) / min(a, b)"
    )


def awaits_at_the_top(nb):
    """A notebook's shell runs these."""
    nb["cells"].insert(3, code("import asyncio\n\n\nasync def found():\n    return 42.5\n\n\nkept = await found()"))
    cell(nb, "ch01-q04")["source"] = "speed = kept"


def names_of_the_shell(nb):
    i = at(nb, "ch01-q04")
    nb["cells"][i]["source"] = "speed = 2 * _"
    nb["cells"].insert(i, code("42.5 / 2"))


def pictures_and_pages(nb):
    nb["cells"].insert(3, code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nshown = 1"))
    pages = "from IPython.display import HTML, Markdown, display\ndisplay(HTML('<b>x</b>'), Markdown('*y*'))\nseen = 1"
    nb["cells"].insert(4, code(pages))
    cell(nb, "ch01-q04")["source"] = "speed = 42.5 * shown * seen"


def files_of_its_own(nb):
    kept = "import json, pathlib\npathlib.Path('notes.json').write_text(json.dumps({'speed': 42.5}))"
    nb["cells"].insert(3, code(kept))
    cell(nb, "ch01-q04")["source"] = "speed = json.loads(pathlib.Path('notes.json').read_text())['speed']"


def checks_run_many_times(nb):
    for c in graded(nb):
        c["source"] = c["source"] + "\n"
        nb["cells"].insert(nb["cells"].index(c), code("check.solution('1.1') if False else None"))


def answers_only(nb):
    nb["cells"] = [c for c in nb["cells"] if grade_id(c) in (*TAKEN, "ch01-q03")]


def saved_by_colab(nb):
    kernel = {"name": "python3", "display_name": "Python 3"}
    nb["metadata"] = {"colab": {"provenance": [], "toc_visible": True}, "kernelspec": kernel}
    nb["nbformat"], nb["nbformat_minor"] = 4, 0
    for i, c in enumerate(nb["cells"]):
        c["metadata"] |= {"id": f"Xy{i}", "colab": {"base_uri": "https://localhost/"}, "outputId": "a"}
        c.pop("id", None)


def saved_by_vscode(nb):
    for i, c in enumerate(nb["cells"]):
        c["metadata"] |= {"vscode": {"languageId": "python"}}
        c["id"] = f"{i:08x}"
    nb["nbformat_minor"] = 2


# What the answers say: name -> grade_id -> source. Nobody's answer has to look like ours.
SOURCES = {
    "answer_that_prints": {
        "ch01-q01": "def seconds(V, W):\n    print('0')\n    return V / W\n\n\nprint(seconds(8, 2))\nseconds(4, 2)",
    },
    "own_types": {
        "ch01-q01": "from fractions import Fraction\nimport numpy as np\n\n\n"
                    "def seconds(V, W):\n    return np.float64(Fraction(V) / Fraction(W))",
        "ch01-q02": "from collections import namedtuple\nPair = namedtuple('Pair', 'most ratio')\n\n\n"
                    "def longer(a, b):\n    return Pair(max(a, b), max(a, b) / min(a, b))",
        "ch01-q05": "import jax.numpy as jnp\nfrom collections import OrderedDict\n\n\n"
                    "def table(n):\n    return OrderedDict(square=n * n, list=[n, n + 1], array=jnp.arange(n, dtype=float))",
    },
    "lambdas_and_classes": {
        "ch01-q01": "seconds = lambda V, W: V / W",
        "ch01-q02": "class Longer:\n    def __call__(self, a, b):\n        return max(a, b), max(a, b) / min(a, b)\n\n\nlonger = Longer()",
        "ch01-q05": "import functools\nimport numpy as np\n\n\ndef _table(k, n):\n"
                    "    return {'square': n**k, 'list': [n, n + 1], 'array': np.arange(float(n))}\n\n\n"
                    "table = functools.partial(_table, 2)",
    },
    "jitted": {"ch01-q01": "import jax\n\n\n@jax.jit\ndef seconds(V, W):\n    return V / W"},
    "recursion_and_state": {
        "ch01-q01": "calls = []\n\n\ndef seconds(V, W):\n    calls.append(V)\n    return V / W if len(calls) else None",
        "ch01-q05": "import functools\nimport numpy as np\n\n\n@functools.cache\ndef table(n):\n"
                    "    return {'square': n * n, 'list': [n, n + 1], 'array': np.arange(n)}",
    },
    "names_of_other_languages": {
        "ch01-q01": "# größte Zeit, 时间, ⏱️\ndef seconds(β, W):\n    δ = β / W\n    return δ",
        "ch01-q03": 'Speicher — 内存, память, 🧠; $a<b$ & "quotes"',
    },
    "other_stub_indentation": {"ch01-q01": "\n\ndef seconds(V, W):\n    return V / W"},
    "note_above_the_answer": {
        "ch01-q01": "# YOUR CODE HERE\ndef seconds(V, W):\n    return V / W\n# raise NotImplementedError()",
    },
}  # fmt: skip


def sources(texts: dict[str, str]):
    def edit(nb):
        for name, text in texts.items():
            cell(nb, name)["source"] = text

    return edit


DAMAGED = {name: sources(texts) for name, texts in SOURCES.items()} | named(
    answer_deleted_and_written_below, stub_left_answer_in_a_new_cell, answers_in_one_cell_at_the_top, split_answer,
    merged_with_its_check, merged_with_the_next_answer, answers_as_markdown, text_answer_as_code, answers_moved_to_the_end,
    stub_duplicated_after, first_try_kept_above, helpers_in_own_cells, magics, own_cells_that_fail, own_cell_that_is_slow,
    warnings_on_stderr, awaits_at_the_top, names_of_the_shell, pictures_and_pages, files_of_its_own, checks_run_many_times,
    answers_only, saved_by_colab, saved_by_vscode,
)  # fmt: skip
