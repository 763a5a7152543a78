"""Your own copies of the notebooks: `python -m autograder.own_work [rescue]`.

Without a word, work/ is brought up to date with notebooks/, as `make lab` does before JupyterLab starts.
`rescue`: what was written in notebooks/ itself goes into work/, and notebooks/ is made as the course has it; also in a conflict of git.
"""

import argparse
import sys

from autograder.places import Tree, is_full

from .copies import Work
from .start import update


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m autograder.own_work", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["rescue"])
    wanted = parser.parse_args(argv).what
    work = Work(tree or Tree())
    sys.stdout.reconfigure(errors="replace")
    try:
        if wanted == "rescue":
            from .rescue import rescue

            rescue(work)
        nothing = wanted == "rescue" and not work.said
        update(work)
        if nothing:
            work.said.append("There is nothing to rescue: notebooks/ is as the course has it.")
    except OSError as error:
        full = "the disk is full" if is_full(error) else (error.strerror or str(error)).lower()
        work.said.append(
            f"work/ could not be written: {full}. Make that right and run the same command again; nothing is lost."
        )
        return 1
    finally:
        print("".join(f"{sentence}\n" for sentence in work.said), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
