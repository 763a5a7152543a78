"""What each page of a built site weighs on the wire: python -m tools.weight _build/html

A page counts with every script, style, picture and preload that it names, and with the fonts of its styles only where they
are preloaded; all gzipped except pictures and fonts that are compressed already.
"""

import gzip
import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.check_site import pages

PACKED = {".png", ".jpg", ".jpeg", ".woff", ".woff2", ".webp", ".gif"}


def sent(path: Path) -> int:
    """Bytes that a server which compresses sends for one file."""
    data = path.read_bytes()
    return len(data) if path.suffix in PACKED else len(gzip.compress(data, 6, mtime=0))


def weigh(root: Path) -> dict[str, int]:
    """Bytes of each page under `root` with all that it names; a file named twice counts once."""
    root, sizes, found = root.resolve(), {}, {}
    for path, page in pages(root).items():
        named = {path}
        for url in page.loads:
            parts = urlsplit(url)
            target = (path.parent / unquote(parts.path)).resolve()
            if parts.path and not parts.scheme and not parts.netloc and target.is_file():
                named.add(target)
        for file in named - sizes.keys():
            sizes[file] = sent(file)
        found[path.relative_to(root).as_posix()] = sum(sizes[file] for file in named)
    return found


def report(root: Path, to: Path) -> dict[str, int]:
    """Weigh the site and write the result to `to` as JSON, heaviest page first."""
    found = dict(sorted(weigh(root).items(), key=lambda part: -part[1]))
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def main(argv: list[str]) -> int:
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        print("usage: python -m tools.weight _build/html (a folder that jupyter-book has built)")
        return 2
    root = Path(argv[0])
    for name, size in report(root, root.resolve().parent / "reports/weight.json").items():
        print(f"{size / 1000:8.1f} KB  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
