"""nbgrader's settings. Its commands work from this folder; JupyterLab finds them by JUPYTER_CONFIG_PATH=autograder.

An instructor's own, the exchange and the rule for late work, stand in `class_config.py` beside it, which no update touches.
"""

import os
import sys
from pathlib import Path

from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
from nbgrader import preprocessors as stock

HERE = Path(__file__).resolve().parent
HOME = HERE.parent

c = get_config()  # noqa: F821  (traitlets defines it)

# --- what every process needs -------------------------------------------------------------------------------------
if str(HOME) not in sys.path:
    sys.path.insert(0, str(HOME))  # this course's own steps, below
from autograder.grading import nbgrader_internals, nbgrader_steps as ours  # noqa: E402  (the path has to be set first)

nbgrader_internals.grade_one_way()


def first(variable: str, folder: Path) -> None:
    """Put `folder` before the others of a list of paths in the environment."""
    others = [p for p in os.environ.get(variable, "").split(os.pathsep) if p and p != str(folder)]
    os.environ[variable] = os.pathsep.join([str(folder), *others])


first("PATH", Path(sys.executable).parent)  # the first use of a gradebook calls `alembic` by name
first("PYTHONPATH", HOME)  # kernels find `helpers`
first("JUPYTER_PATH", HERE / "share")  # templates of feedback and formgrader that need no other host
first("JUPYTER_CONFIG_PATH", HERE)  # a relative path in it would get lost when nbgrader changes folders

# --- the course ---------------------------------------------------------------------------------------------------
c.CourseDirectory.root = str(HERE)
c.CourseDirectory.course_id = "rooflines"
# SQLite beside this file, or for example COURSE_DB_URL=postgresql+psycopg://grader@host/rooflines
c.CourseDirectory.db_url = os.environ.get("COURSE_DB_URL") or f"sqlite:///{HERE / 'gradebook.db'}"

# Only notebooks travel: a file beside one could stand in for a module of the kernel or of a test.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.py", "*.pyc", "*.pth", "*.so", "*.pyd", "*.dylib", "*.zip", "*.egg",
                            "__pycache__", "feedback", "*.db", "*.html", "*.htm"]  # fmt: skip
c.CourseDirectory.max_file_size = 100_000  # kB, outputs included: what is graded is read without them
c.CourseDirectory.max_dir_size = 120_000  # kB

# --- the exchange: handing out and collecting on one machine ------------------------------------------------------
c.Exchange.root = os.environ.get("COURSE_EXCHANGE") or str(HERE / "exchange")  # a JupyterHub has one for all
c.Exchange.cache = str(HERE / "exchange" / "cache")
c.Exchange.assignment_dir = str(HOME / "work")  # where fetched assignments land
c.ExchangeFactory.collect = nbgrader_internals.Collect
for folder in (HERE / "exchange", HOME / "work"):
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        pass  # a read-only copy: nbgrader says what it misses when it is asked to exchange

# --- export: names that a spreadsheet would take for formulas are quoted -------------------------------------------
c.ExportApp.plugin_class = "autograder.lms.tables.Grades"

# --- release ------------------------------------------------------------------------------------------------------
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}

# --- grading ------------------------------------------------------------------------------------------------------
# What `make grade` has found goes through these into the gradebook; `nbgrader autograde` names that command.
c.Autograde.autograde_preprocessors = [
    stock.OverwriteCells, stock.IgnorePattern, ClearMetadataPreprocessor, stock.LimitOutput, stock.SaveAutoGrades,
    stock.AssignLatePenalties, stock.CheckCellMetadata,
]  # fmt: skip
c.ExecutePreprocessor.skip_cells_with_tag = "__never__"  # else the tag "skip-execution" on a test is full marks
c.ExecutePreprocessor.timeout = 60  # seconds a cell
c.ExecutePreprocessor.interrupt_on_timeout = True  # and on to the next cell
c.ExecutePreprocessor.startup_timeout = 120
c.ExecutePreprocessor.raise_on_iopub_timeout = True  # a kernel that says nothing any more is an error, not a pass
c.ExecutePreprocessor.shutdown_kernel = "immediate"
c.ExecutePreprocessor.extra_arguments = ["--IPKernelApp.log_level=40"]  # no word about local connections
c.OverwriteCells.add_missing_cells = True
c.LimitOutput.max_lines = 1000
c.LimitOutput.max_traceback = 100

# --- feedback and formgrader: no hidden test, no live script ------------------------------------------------------
c.GenerateFeedback.preprocessors = [
    stock.GetGrades, ours.HideTests, ours.Sanitize, CSSHTMLHeaderPreprocessor,
]  # fmt: skip
c.HTMLExporter.filters = {
    "markdown2html": ours.markdown_of_cell, "highlight_code": ours.safe_code, "strip_files_prefix": ours.as_it_is,
}  # fmt: skip
c.HTMLExporter.preprocessors = [ours.Rubrics, ours.Sanitize]

if (HERE / "class_config.py").is_file():
    load_subconfig("class_config.py", path=str(HERE))  # noqa: F821  (traitlets defines it)
