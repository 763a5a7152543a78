"""`make bench`: what imports, builds and start-up cost, as ratios measured in one run on this machine."""

import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

from tqdm import tqdm

from tests import scratch
from tests.scratch import ROOT

COSTS = "from helpers.costs.rooflines import chips, roofline, torus; from helpers.costs.sharding import best_shardings"


def seconds(command: list[str], cwd: Path = ROOT, env: dict | None = None) -> float:
    """Wall seconds of a command that must succeed."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - start


def imports(rounds: int = 15) -> dict[str, float]:
    """Median seconds of a Python that imports nothing, json, and helpers.costs, taken in turn."""
    cases = {"nothing": "pass", "json": "import json", "helpers.costs": COSTS}
    taken = {name: [] for name in cases}
    for _ in tqdm(range(rounds), desc="imports", leave=False):
        for name, code in cases.items():
            taken[name].append(seconds([sys.executable, "-c", code]))
    return {name: statistics.median(t) for name, t in taken.items()}


def planning() -> tuple[float, float]:
    """Calls of the planner and plans it makes per second, over a third of all shardings of one product on a 4x2 mesh, with their times."""
    from helpers.costs.rooflines.chips import chip
    from helpers.costs.sharding import matmul_plans
    from helpers.costs.sharding.resharding import shardings
    from helpers.costs.sharding.sharded_array import Mesh

    mesh, v5e, sizes = Mesh({"X": 4, "Y": 2}), chip("v5e"), dict(I=4096, J=8192, K=1024)
    every = list(
        itertools.product(*(shardings(n, tuple(d), mesh) for n, d in (("A", "IJ"), ("B", "JK"), ("C", "IK"))))
    )[::3]
    start, plans = time.perf_counter(), 0
    for abc in every:
        found = matmul_plans.plans(*abc, sizes, mesh)
        min(found, key=lambda p: matmul_plans.order(p.time(v5e)))
        plans += len(found)
    taken = time.perf_counter() - start
    return len(every) / taken, plans / taken


def tracing(layers: int, rounds: int = 5) -> float:
    """Least seconds to read every collective of a program of that many layers and of its gradient."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    from helpers import trace
    from helpers.kernels import mesh

    def loss(x, weights):  # x[B, D_X], weights[L, D, D_X]
        def layer(x, w):
            return jax.lax.all_gather(x, "X", axis=1, tiled=True) @ w, None

        x, _ = jax.lax.scan(layer, x, weights)
        return jax.lax.psum(jnp.sum(x * x).astype(jnp.float32), "X")

    shapes = jax.ShapeDtypeStruct((8, 64), jnp.bfloat16), jax.ShapeDtypeStruct((layers, 64, 64), jnp.bfloat16)
    taken = []
    for _ in range(rounds):
        f = jax.shard_map(
            loss,
            mesh=mesh.mesh((8,), ("X",)),
            in_specs=(P(None, "X"), P(None, None, "X")),
            out_specs=P(),
        )
        start = time.perf_counter()
        trace.sent(jax.grad(f, argnums=1), *shapes)
        taken.append(time.perf_counter() - start)
    return min(taken)


def builds() -> dict[str, float]:
    """Seconds of a first build of the book, and of a second one with nothing changed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [shutil.which("jupyter-book"), "build", ".", "-W", "-n", "--keep-going"]
        tree = scratch.copy(Path(folder))
        return {name: seconds(command, cwd=tree) for name in tqdm(("cold", "warm"), desc="builds", leave=False)}


def first_cell() -> float:
    """Seconds from starting JupyterLab, as `make lab` does, to the result of a first cell that imports helpers and JAX."""
    import websocket  # a dependency of jupyter_server

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with scratch.jupyterlab(ROOT, Path(folder)) as url:
            request = urllib.request.Request(f"{url}api/kernels?token=t", data=b"{}", method="POST")
            with urllib.request.urlopen(request, timeout=60) as reply:
                kernel = json.load(reply)["id"]
            socket = websocket.create_connection(
                f"{url.replace('http', 'ws')}api/kernels/{kernel}/channels?token=t", timeout=120
            )
            _execute(socket, "import jax, helpers.costs.rooflines.roofline\nprint(jax.__version__)")
            socket.close()
            return time.perf_counter() - start


def _execute(socket, code: str) -> None:
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": "execute_request",
        "username": "",
        "session": uuid.uuid4().hex,
        "version": "5.3",
    }
    socket.send(
        json.dumps(
            {
                "header": header,
                "parent_header": {},
                "metadata": {},
                "channel": "shell",
                "buffers": [],
                "content": {
                    "code": code,
                    "silent": False,
                    "store_history": True,
                    "user_expressions": {},
                    "allow_stdin": False,
                },
            }
        )
    )
    while True:
        message = json.loads(socket.recv())
        if message["msg_type"] == "execute_reply" and message["parent_header"].get("msg_id") == header["msg_id"]:
            if message["content"]["status"] != "ok":
                raise RuntimeError(message["content"])
            return


def main() -> None:
    """Print every figure as soon as it is there."""
    t = imports()
    costs, js = t["helpers.costs"] - t["nothing"], t["json"] - t["nothing"]
    print(
        f"import helpers.costs: {costs * 1e3:.0f} ms on top of a bare Python, {costs / js:.1f} times import json ({js * 1e3:.0f} ms)",
        flush=True,
    )
    calls, plans = planning()
    print(
        f"planner: {calls:,.0f} products and {plans:,.0f} plans a second, {plans / 1000:.0f} times the 1,000 promised",
        flush=True,
    )
    one, hundred = tracing(1), tracing(100)
    print(
        f"collectives of 100 layers and their gradient: {hundred:.2f} s, {hundred / one:.2f} times those of one layer",
        flush=True,
    )
    b = builds()
    print(f"book: cold {b['cold']:.0f} s, warm {b['warm']:.0f} s, ratio {b['cold'] / b['warm']:.1f}", flush=True)
    first = first_cell()
    print(
        f"JupyterLab start to first executed cell: {first:.1f} s, {first / t['nothing']:.0f} times the start of a bare Python",
        flush=True,
    )
    tests = seconds([sys.executable, "-m", "pytest", "-n", "2"])
    print(f"make test: {tests:.0f} s, {tests / 300:.2f} of the five minutes it may take", flush=True)


if __name__ == "__main__":
    main()
