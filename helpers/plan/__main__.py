"""`python -m helpers.plan`."""

import argparse
import os
import sys

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.training.layout import BY_BYTES
from helpers.costs.training.operation_seconds import KERNELS

from .ask import COMMAND, EXAMPLE, MOST, SERVES as SERVE_COMMAND, amount, number, share, shares
from .flags import SERVES, TRAINS
from .serve import serve
from .train import train

WEIGHTS = ("bf16", "fp8", "fp4", "int8", "int4", "mxfp4", "nvfp4")
PRODUCTS = ("bf16", "fp8", "mxfp8", "nvfp4", "int8")
CACHES = ("bf16", "fp8", "int8", "nvfp4")


class Parser(argparse.ArgumentParser):
    """One that says what is wrong in one sentence, with a command that would be right."""

    def error(self, message):
        raise ValueError(f"{message}: {SERVE_COMMAND if self.prog.endswith('serve') else COMMAND}")


def parser() -> Parser:
    top = Parser(prog="python -m helpers.plan", description="A model on chips: a training step, or a service.")
    tasks = top.add_subparsers(dest="task", required=True, metavar="train or serve")
    both = argparse.ArgumentParser(add_help=False)
    both.add_argument("model", nargs="?", help="a public model, such as llama-3-70b")
    both.add_argument("--config", help="a model's config.json, instead of a public model")
    both.add_argument("--price", type=amount, help="of a chip-hour")
    both.add_argument("--json", action="store_true", help="the same as data")
    for add in (training, serving):
        add(tasks, both)
    return top


def training(subcommands, shared) -> None:
    task = subcommands.add_parser("train", parents=[shared], help="layouts of a training step")
    task.set_defaults(run=train, said_by=task)
    task.add_argument("--chips", required=True, help=f"how many of which, such as {EXAMPLE}, up to {MOST}")
    batch = task.add_mutually_exclusive_group(required=True)
    batch.add_argument("--tokens", type=number, help="of a step, all sequences together")
    batch.add_argument("--sequences", type=number, help="of a step, instead of its tokens")
    task.add_argument("--length", type=number, required=True, help="tokens of a sequence")
    task.add_argument(
        "--layout",
        default="",
        help='one layout, completed by search: tp=8,pp=16, or a framework\'s flags: --layout="--…"',
    )
    task.add_argument("--flags", choices=TRAINS, help="the layout as flags of a framework, too")
    task.add_argument(
        "--bytes",
        type=number,
        choices=BY_BYTES,
        default=16,
        help="of a parameter: weight, gradient, moments, master copy",
    )
    task.add_argument("--products", choices=PRODUCTS, default="bf16", help="type in which weights multiply")
    task.add_argument(
        "--software",
        choices=KERNELS,
        default="tuned",
        help="kernels as makers tune them, usual ones, PyTorch compiled (pytorch) or not (eager), before FlashAttention (2021)",
    )
    task.add_argument("--group", type=number, help="GPU domains under the same leaf switches: up to 32 hosts, 8 racks")
    task.add_argument("--oversubscription", type=amount, default=1.0, help="of the spine switches over groups; 1: none")
    task.add_argument("--top", type=number, default=10, help="layouts that are listed")
    task.add_argument("--budget", type=amount, default=1e12, help="tokens of the whole run, for days and price")


def serving(subcommands, shared) -> None:
    task = subcommands.add_parser(
        "serve", parents=[shared], help="a deployment for what users are promised", epilog=f"example: {SERVE_COMMAND}"
    )
    task.set_defaults(run=serve, said_by=task)
    asked = task.add_argument_group("what is served, on what")
    asked.add_argument(
        "--chips", required=True, help="how many of which, such as 16xH200; H200 alone: as few as needed"
    )
    asked.add_argument("--in", dest="prompt", type=number, required=True, help="tokens of a prompt")
    asked.add_argument("--out", dest="answer", type=number, required=True, help="tokens of an answer")
    promised = task.add_argument_group("what users are promised")
    promised.add_argument("--speed", type=amount, help="tokens/s for each user, at least")
    promised.add_argument("--first", type=amount, help="seconds to the first token, at most")
    promised.add_argument("--users", type=amount, help="requests at once, at least; with --layout, as many")
    promised.add_argument("--rate", type=amount, help="requests/s, at least")
    asked.add_argument(
        "--turns", type=number, default=1, help="of a session: each prompt holds all before it, and --in new ones"
    )
    asked.add_argument("--hits", type=share, default=0.0, help="share of --in that is in caches already, such as 0.6")
    how = task.add_argument_group("how it is served")
    how.add_argument("--layout", default="", help="one layout instead of a search: tp=8, or dp=16,ep=16, or flags")
    how.add_argument("--flags", choices=SERVES, help="the layout as flags of an engine, too")
    how.add_argument("--weights", choices=WEIGHTS, help="type of the weights; the checkpoint's own, or bf16")
    how.add_argument("--cache", choices=CACHES, help="type of cached numbers; the checkpoint's own, or bf16")
    how.add_argument(
        "--drafts", type=shares, default=(), help="acceptance of drafted tokens by position, such as 0.85,0.7"
    )
    how.add_argument("--engine", choices=sorted(ENGINES), default="unknown", help="program that serves")


def main(words: list[str] | None = None) -> int:
    try:
        options, unknown = parser().parse_known_args(words)
        if unknown:  # argparse has the command above say this, whose example would be of the other task
            options.said_by.error(f"there is no {' '.join(unknown)} in {options.task}")
        print(options.run(options), flush=True)
    except BrokenPipeError:  # `| head` has read enough; what is closed at the end must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ValueError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
