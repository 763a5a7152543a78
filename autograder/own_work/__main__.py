"""A learner's one command. Without a word it brings work/ up to date and opens JupyterLab where you were on your path.

course next        what is next on your path; `course next training` chooses another: 45, training, inference or all
course status      how far you are, chapter by chapter, and what waits for review
course review      questions and exercises from what you have read, with other numbers, when they are due
course check       grade your notebooks with the full tests; nothing in them changes
course update      fetch the newest course, and bring your copies up to date
course reset 1.4   exercise 1.4 as it was given; what you wrote is kept in work/kept/
course rescue      answers out of notebooks/ into work/, and notebooks/ as the course has it; also in a conflict of git
course carry       what you have read, answered and passed as one line of text; `course carry 'r2r1 …'` takes one in
course doctor      whether Python, packages, disk and folders are as the course needs them
course copies      only bring work/ up to date with notebooks/, as containers do when they start
"""

import argparse
import sys
from importlib import import_module

from autograder.places import SourceError, Tree, is_full

from .copies import Work

# Module and function of each word; "" is `course` alone. What a word does not need is not imported: `course` starts in a second.
COMMANDS = {
    "": "lab:start", "next": "commands:next_step", "status": "commands:status", "review": "commands:review_today",
    "check": "__main__:check", "update": "commands:pull", "reset": "commands:reset", "rescue": "start:rescue",
    "carry": "commands:carry", "doctor": "doctor:main", "copies": "start:update",
}  # fmt: skip
TAKES_WORDS = ("", "next", "check", "reset", "carry")


def check(work: Work, *words: str) -> int:
    from autograder import grade_own

    from .commands import next_step

    code = grade_own.main([*words], work.tree)
    next_step(work)
    return code


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("course", "course [word …]", __doc__, formatter_class=shape)
    parser.add_argument("word", nargs="?", choices=[*filter(None, COMMANDS)], metavar="word", help="one of those above")
    words = [*(sys.argv[1:] if argv is None else argv)]
    # Everything that begins with a dash is JupyterLab's, such as --port=9000.
    jupyter = words[:1] != ["--help"] and "".join(words[:1]).startswith("--")
    word = "" if jupyter else parser.parse_args(words[:1]).word or ""
    rest = words[1:] if word else words
    if rest and word not in TAKES_WORDS:
        parser.error(f"`course {word}` takes no further word, and got {rest[0]!r}.")
    work = Work(tree or Tree())
    sys.stdout.reconfigure(errors="replace")
    module, _, function = COMMANDS[word].partition(":")
    try:
        return getattr(import_module(f".{module}", __package__), function)(work, *rest) or 0
    except SourceError as error:
        work.said.append(str(error))
        return 1
    except OSError as error:
        full = "the disk is full" if is_full(error) else (error.strerror or str(error)).lower()
        work.said.append(
            f"work/ could not be written: {full}. Mend that and run the same command again; nothing is lost."
        )
        return 1
    finally:
        work.tell()


if __name__ == "__main__":
    sys.exit(main())
