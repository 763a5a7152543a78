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
from collections.abc import Callable

from autograder.places import SourceError, Tree, is_full

from .copies import Work
from .start import update


def go_on(work: Work, words: list[str]) -> None:
    from . import lab

    update(work)
    tell(work)
    lab.start(work, words)


def copies(work: Work, words: list[str]) -> None:
    update(work)


def rescue(work: Work, words: list[str]) -> None:
    from .rescue import rescue

    rescue(work)
    nothing = not work.said
    update(work)
    if nothing:
        work.said.append("There is nothing to rescue: notebooks/ is as the course has it.")


def newest(work: Work, words: list[str]) -> None:
    from .newest import pull

    pull(work)
    update(work)


def check(work: Work, words: list[str]) -> int:
    from autograder import grade_own

    return grade_own.main(words, work.tree)


def next_step(work: Work, words: list[str]) -> None:
    from . import standing

    update(work)  # what it names is there
    standing.next_step(work, words)


def status(work: Work, words: list[str]) -> None:
    from . import standing

    standing.status(work)


def carry(work: Work, words: list[str]) -> None:
    from . import standing

    standing.carry(work, " ".join(words))


def review(work: Work, words: list[str]) -> None:
    from . import reviewing

    reviewing.run(work)


def reset(work: Work, words: list[str]) -> None:
    from .reset import reset

    reset(work, words)


def doctor(work: Work, words: list[str]) -> int:
    from . import doctor

    return doctor.main(work)


COMMANDS: dict[str, Callable[[Work, list[str]], int | None]] = {
    "next": next_step, "status": status, "review": review, "check": check, "update": newest, "reset": reset,
    "rescue": rescue, "carry": carry, "doctor": doctor, "copies": copies,
}  # fmt: skip
TAKES_WORDS = ("next", "check", "reset", "carry")


def tell(work: Work) -> None:
    print("".join(f"{sentence}\n" for sentence in work.said), end="", flush=True)
    work.said.clear()


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course",
        usage="course [word …]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("word", nargs="?", choices=[*COMMANDS], metavar="word", help="one of those above")
    words = [*(sys.argv[1:] if argv is None else argv)]
    # Everything that begins with a dash is JupyterLab's, such as --port=9000.
    command = (
        None if words[:1] and words[0].startswith("--") and words[0] != "--help" else parser.parse_args(words[:1]).word
    )
    rest = words[1:] if command else words
    if command and rest and command not in TAKES_WORDS:
        parser.error(f"`course {command}` takes no further word, and got {rest[0]!r}.")
    work = Work(tree or Tree())
    sys.stdout.reconfigure(errors="replace")
    try:
        return COMMANDS.get(command, go_on)(work, rest) or 0
    except SourceError as error:
        work.said.append(str(error))
        return 1
    except OSError as error:
        full = "the disk is full" if is_full(error) else (error.strerror or str(error)).lower()
        work.said.append(
            f"work/ could not be written: {full}. Make that right and run the same command again; nothing is lost."
        )
        return 1
    finally:
        tell(work)


if __name__ == "__main__":
    sys.exit(main())
