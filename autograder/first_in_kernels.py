"""What each kernel of JupyterLab runs first (PYTHONSTARTUP): who begins in the middle of a notebook is told to run its first cells."""


def _told(shell, kind, error, trace, tb_offset=None):
    import sys

    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    if "helpers" not in sys.modules:  # which the first cell imports
        print("The first cells of this notebook have not run: run them, then this one.", file=sys.stderr)


if "get_ipython" in globals():  # a terminal's Python has none
    get_ipython().set_custom_exc((NameError,), _told)  # noqa: F821
del _told
