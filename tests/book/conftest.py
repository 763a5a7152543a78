"""One build of the book for all tests that look at pages, and one Chromium that reaches no network."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def digest() -> str:
    """Of every file that a build may read, and of the Python and the packages that build."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    packages = sorted(f"{d.name} {d.version}" for d in distributions())
    found = hashlib.sha256("\n".join([sys.version, *packages]).encode())
    for name in sorted(listed.stdout.splitlines()) if listed.returncode == 0 else [os.urandom(8).hex()]:
        path = ROOT / name
        found.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()[:16]


def build(to: Path) -> str:
    """The book built into `to`, from nothing, warnings as errors, as `make book` does; its log."""
    program = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "build", ".", "-W", "-n", "--keep-going", "--path-output", str(to)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    log = done.stdout + done.stderr
    (to / "log.txt").write_text(log)
    if done.returncode:
        shutil.rmtree(to / "_build", ignore_errors=True)
    return log


@pytest.fixture(scope="session")
def site(pytestconfig) -> Path:
    """The folder of the built pages; processes share it, and so does the next run if no file has changed."""
    kept = pytestconfig.cache.mkdir("site")
    with open(kept / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shared = kept / digest()
        if not (shared / "log.txt").is_file():  # written last: a build that was stopped is none
            for old in kept.iterdir():
                shutil.rmtree(old) if old.is_dir() else None
            shared.mkdir()
            build(shared)
        if not (shared / "_build/html").is_dir():
            log = (shared / "log.txt").read_text()
            shutil.rmtree(shared)  # the next run tries again
            pytest.fail(f"the book does not build:\n{log[-6000:]}", pytrace=False)
    return shared / "_build/html"


class Visit:
    """Opens pages of the site from their files; `asked` lists what they wanted from elsewhere, `errors` what went wrong."""

    def __init__(self, browser, site: Path):
        self.browser, self.site = browser, site
        self.asked, self.errors, self.contexts = [], [], []

    def __call__(self, page: str, *, scheme="light", width=1280, height=900, javascript=True):
        context = self.browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}, java_script_enabled=javascript
        )
        self.contexts.append(context)
        context.route(lambda url: not url.startswith(("file:", "data:", "blob:")), self.refuse)
        opened = context.new_page()
        opened.on("pageerror", lambda error: self.errors.append(str(error)))
        opened.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.go(opened, page)
        return opened

    def go(self, opened, page: str) -> None:
        opened.goto(f"{self.site.as_uri()}/{page}", wait_until="load")

    def refuse(self, route):
        self.asked.append(route.request.url)
        route.abort()

    def close(self) -> None:
        for context in self.contexts:
            context.close()


@pytest.fixture
def visit(browser, site):
    v = Visit(browser, site)
    yield v
    v.close()


def extension(name: str):
    """A module of the book's Sphinx extensions, of which one imports another."""
    if (folder := str(ROOT / "book/_ext")) not in sys.path:
        sys.path.append(folder)
    return import_module(name)


# Transitions at their end: those of parts that are not drawn would never end. Layout first, which starts what a new size moves.
STILL = "document.body.getBoundingClientRect(); document.getAnimations().forEach(a => a.finish())"


def settle(page) -> None:
    """Wait until the page has its fonts and has come to rest."""
    page.evaluate("async () => { await document.fonts.ready }")
    page.evaluate(STILL)


def chapter_text(topic: str) -> str:
    """The source of a chapter: its core and its pages further down."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "book").glob(f"{topic}*.md")))


def page_names() -> list[str]:
    """Every page in the table of contents, as the site names it."""
    import yaml

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def files(entry):
        yield from ([entry["file"]] if "file" in entry else [])
        for key in ("parts", "chapters", "sections"):
            for child in entry.get(key, ()):
                yield from files(child)

    return [f"{name}.html" for name in (toc["root"], *files(toc))]
