"""Which wrong answers win: made by machine from ours, judged by the exercise's own check.

    python -m tools.hunt ch01-q04          one answer
    python -m tools.hunt ch01              a chapter
    python -m tools.hunt --write           all of them; what wins is written to won.yaml

Each change of `mutation` is judged under two seeds, and under twenty if both let it pass. What wins under some of them is a
lottery; what wins under all of them is right as well, or an edge that no case has. `won.yaml` lists what has been looked at and
found right, for each answer that was hunted, so that a new one stands out.
"""

import argparse
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from dataclasses import dataclass

import yaml
from tqdm import tqdm

from autograder.making import in_process_grading
from autograder.making.bank import SAMPLES
from autograder.making.exercises import meta
from autograder.places import Tree

from .mutation import Change, changes

WON = SAMPLES / "won.yaml"
HEAD = (
    "Changes of our answers that win and were looked at: they are right as well (`python -m tools.hunt`).",
    "An answer without any was hunted too; one that is not here was not. Of those of 2.26, which is judged by its designs alone,",
    "41 choose as good designs as ours on 150 drawn problems; the others lose only where so little memory is left that other right",
    "answers find no design that fits, either.",
)
SEEDS = [("0", "a secret"), ("spring", "another")]
MORE = [(str(i), f"secret {i}") for i in range(20)]
SECONDS = 20
"""Of the processor, for an answer and its check; a machine that others share may take many times as long."""


@dataclass(frozen=True)
class Winner:
    """A change that earns all points under so many of so many seeds."""

    change: Change
    won: int
    of: int

    @property
    def lottery(self) -> bool:
        return self.won < self.of


def answers(wanted: str = "") -> dict[str, str]:
    """{grade id: chapter} of all answers that begin so and have a check."""
    found = {}
    for path in Tree().exercises:
        cells = in_process_grading.solved(path.stem).cells
        checked = {meta(c)["grade_id"].removesuffix("-check") for c in cells if meta(c).get("grade")}
        ids = [meta(c)["grade_id"] for c in cells if meta(c).get("solution") and c.cell_type == "code"]
        found |= {i: path.stem for i in ids if i in checked and i.startswith(wanted)}
    return found


class Judge:
    """A process that judges answers; one that takes too long, or ends, is replaced and its answer has lost."""

    def __init__(self, topic: str, grade_id: str):
        self.command, self.process = [sys.executable, "-m", __spec__.name, "--judge", topic, grade_id], None

    def __call__(self, source: str, seed: tuple[str, str]) -> bool:
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
            if not self._reply(60 * SECONDS):  # it solves the chapter first
                raise RuntimeError(
                    f"No judge of {self.command[-1]} is ready after {60 * SECONDS} s: is the machine too busy?"
                )
        try:
            print(json.dumps([source, seed]), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            self.close()
            return False
        return self._reply(10 * SECONDS) == "won"

    def _reply(self, seconds: float) -> str:
        with selectors.DefaultSelector() as s:
            s.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline().strip() if s.select(seconds) else ""
        if not line:
            self.close()
        return line

    def close(self) -> None:
        if self.process:
            self.process.kill()
            with contextlib.suppress(BrokenPipeError), self.process:
                pass  # leaving closes its pipes and waits for it
            self.process = None


def judging(topic: str, grade_id: str) -> None:
    """The loop of a judge: answers come on stdin, verdicts go to stdout."""
    scope, out = in_process_grading.names(topic, lambda cell: "picture()" not in cell.source), sys.stdout
    (check,) = [c for c in in_process_grading.solved(topic).cells if meta(c).get("grade_id") == f"{grade_id}-check"]
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        source, (seed, secret) = json.loads(line)
        os.environ.update(COURSE_SEED=seed, COURSE_VALUES=secret)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # then it ends
        mine = dict(scope)
        _, _, fault = in_process_grading.execute(source, f"<{grade_id}>", mine)
        value, _, more = (0, "", "") if fault else in_process_grading.execute(check.source, f"<{grade_id}-check>", mine)
        print("lost" if fault or more or value != meta(check)["points"] else "won", file=out, flush=True)


def hunt(topic: str, grade_id: str) -> tuple[int, list[Winner]]:
    """(how many changes were judged, those that win)."""
    (cell,) = [c.source for c in in_process_grading.solved(topic).cells if meta(c).get("grade_id") == grade_id]
    judge, found, tried = Judge(topic, grade_id), [], changes(cell)
    if lost := [seed for seed in SEEDS + MORE if not judge(cell, seed)]:  # then it says nothing of the others
        judge.close()
        raise RuntimeError(f"Our own answer of {grade_id} loses under {lost[0]}: mend its check, then hunt.")
    for change in tqdm(tried, desc=grade_id, delay=5, leave=False):
        if all(judge(change.source, seed) for seed in SEEDS):
            found.append(Winner(change, sum(judge(change.source, seed) for seed in MORE), len(MORE)))
    judge.close()
    return len(tried), found


def known() -> dict[str, list[str]]:
    """What wins and was found right, by answer."""
    return (yaml.safe_load(WON.read_text(encoding="utf-8")) or {}) if WON.is_file() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wanted", nargs="?", default="", help="the beginning of grade ids, ch01-q04")
    parser.add_argument("--write", action="store_true", help="write what wins to won.yaml")
    parser.add_argument("--judge", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.judge:
        return judging(*given.judge)
    seen, won = known(), {}
    for grade_id, topic in answers(given.wanted).items():
        n, winners = hunt(topic, grade_id)
        won[grade_id] = [str(w.change) for w in winners]
        new = [w for w in winners if str(w.change) not in seen.get(grade_id, ())]
        print(f"{grade_id}: {n} changes, {len(winners)} win, {len(new)} of them not looked at", flush=True)
        for w in new:
            print(
                f"    line {w.change.line}: {w.change}"
                + (f"   wins under {w.won} of {w.of} seeds" if w.lottery else ""),
                flush=True,
            )
    if given.write:
        text = yaml.safe_dump(seen | won, allow_unicode=True, width=200)
        WON.write_text("".join(f"# {line}\n" for line in HEAD) + text, encoding="utf-8")


if __name__ == "__main__":
    main()
