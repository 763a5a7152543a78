"""What a kernel of the course's JupyterLab runs first: where a name is missing, the cell of the notebook is named that makes it.

`course` names this file in PYTHONSTARTUP, which kernels run in the learner's namespace; so it leaves nothing there.
"""


def _begin() -> None:
    import json
    import os
    import re
    from pathlib import Path

    from IPython import get_ipython

    def tell(shell, kind, error, trace, tb_offset=None) -> None:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        try:  # the server says where the notebook is; a copy of it that is open elsewhere may have another name
            from autograder.engine.cell_names import defined

            notebook = json.loads(Path(os.environ["JPY_SESSION_NAME"]).read_text(encoding="utf-8"))
            cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        except (ImportError, KeyError, OSError, ValueError, TypeError):
            return
        makes = lambda cell: error.name in defined(re.sub("^[%!].*", "", cell, flags=re.M))  # noqa: E731
        if maker := next(filter(makes, cells), ""):
            begins, above = maker.strip().partition("\n")[0], "Run > Run All Above Selected Cell"
            print(f"The cell that begins with `{begins}` makes {error.name}: run it first, or all above by {above}.")

    if shell := get_ipython():  # Python in a terminal of JupyterLab runs this file, too
        shell.set_custom_exc((NameError,), tell)


_begin()
del _begin
