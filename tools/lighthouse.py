"""Lighthouse on a built site, median of several runs: python -m tools.lighthouse _build/html [RUNS]

The start page and the heaviest chapter, as a desktop and as a phone on a slow network see them, from a server on this machine
that compresses.  Writes _build/reports/lighthouse.json beside the site.  Needs Chromium, and `npm install --prefix tests/browser`.
"""

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.browser import chromium
from tools.weight import PACKED, weigh

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests/browser/node_modules/.bin/lighthouse"
KINDS = ("performance", "accessibility", "best-practices", "seo")
PROFILES = {"phone": [], "desktop": ["--preset=desktop"]}  # a phone is what Lighthouse takes unless told


class Compressed(SimpleHTTPRequestHandler):
    """Files of a folder, gzipped where that makes them smaller."""

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if path.is_dir() or not path.is_file():
            return super().do_GET()
        data, packed = path.read_bytes(), path.suffix in PACKED
        data = data if packed else gzip.compress(data, 6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        if not packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(data)
        return None

    def log_message(self, *_):
        pass


@contextmanager
def served(root: Path):
    """The address of a folder, as long as it is needed."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Compressed, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def heaviest(root: Path) -> str:
    """The chapter that weighs most."""
    chapters = {name: size for name, size in weigh(root).items() if name.startswith("book/ch")}
    return max(chapters, key=chapters.get)


def scores(address: str, profile: str) -> dict[str, int]:
    """One run: category -> points of 100."""
    flags = " ".join(["--headless=new", *chromium.FLAGS])
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder, "report.json")
        command = [str(PROGRAM), address, "--quiet", "--output=json", f"--output-path={to}", f"--chrome-flags={flags}"]
        command += [*PROFILES[profile], f"--only-categories={','.join(KINDS)}"]
        subprocess.run(command, check=True, env=os.environ | {"CHROME_PATH": chromium.program()})
        found = json.loads(to.read_text(encoding="utf-8"))["categories"]
    return {kind: round(100 * (found[kind]["score"] or 0)) for kind in KINDS}


def medians(root: Path, runs: int) -> dict[str, dict[str, int]]:
    """'page, profile' -> category -> median of so many runs."""
    found = {}
    with served(root) as address:
        for page in ("book/intro.html", heaviest(root)):
            for profile in PROFILES:
                each = [scores(f"{address}/{page}", profile) for _ in range(runs)]
                middle = {kind: round(statistics.median(one[kind] for one in each)) for kind in KINDS}
                found[f"{page}, {profile}"] = middle
                print(
                    f"{page}, {profile}: " + ", ".join(f"{kind} {points}" for kind, points in middle.items()),
                    flush=True,
                )
    return found


def main(argv: list[str]) -> int:
    if not 1 <= len(argv) <= 2 or not Path(argv[0]).is_dir() or not all(n.isdigit() and int(n) for n in argv[1:]):
        print("usage: python -m tools.lighthouse _build/html [RUNS] (a folder that jupyter-book has built)")
        return 2
    if chromium.program() is None or not PROGRAM.is_file():
        print("Lighthouse is not here: install Chromium, and npm install --prefix tests/browser")
        return 2
    root = Path(argv[0])
    to = root.resolve().parent / "reports/lighthouse.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(medians(root, int(argv[1]) if argv[1:] else 5), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
