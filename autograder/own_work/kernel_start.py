"""What a kernel of the course's JupyterLab runs first: where a name is missing, the cell of the notebook is named that makes it.

`course` names this file in PYTHONSTARTUP, which kernels run in the learner's namespace; so it leaves nothing there.
"""


def _begin() -> None:
    import ast
    import json
    import os
    import re
    from pathlib import Path

    from IPython import get_ipython

    def names(source: str) -> set[str]:
        """Names that a cell makes; none if it cannot be read."""
        try:
            nodes = [*ast.walk(ast.parse(re.sub(r"^[%!].*", "", source, flags=re.M)))]
        except (SyntaxError, ValueError):
            return set()
        made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        made |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        return made | {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}

    def tell(shell, kind, error, trace, tb_offset=None) -> None:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        try:  # the server says where the notebook is; a copy of it that is open elsewhere may have another name
            notebook = json.loads(Path(os.environ["JPY_SESSION_NAME"]).read_text(encoding="utf-8"))
            cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        except (KeyError, OSError, ValueError, TypeError):
            return
        if maker := next((cell for cell in cells if error.name in names(cell)), ""):
            begins, above = maker.strip().partition("\n")[0], "Run > Run All Above Selected Cell"
            print(f"The cell that begins with `{begins}` makes {error.name}: run it first, or all above by {above}.")

    if shell := get_ipython():  # Python in a terminal of JupyterLab runs this file, too
        shell.set_custom_exc((NameError,), tell)


_begin()
del _begin
