"""Sphinx extension: pages begin with two links that open their notebooks in Colab and Binder; the start page leads to the repository.

Jupyter Book's own launch buttons would open the sources.  The address is `repository` in _config.yml, which the theme has as its options
`repository_url` and `repository_branch`; where GitHub builds, GITHUB_REPOSITORY wins, so that a fork's site opens the fork.
"""

import os
import re
from html import escape
from urllib.parse import quote, urlsplit

from autograder.places import reading_of

CLONE = re.compile(r'<span id="clone">(.*?)</span>')
PAGE = re.compile(r"book/(ch\d\d_\w+)")
EXERCISES = re.compile(r"notebooks/(ch\d\d_\w+)/exercises")


def notebook(page: str) -> str | None:
    """The notebook that belongs to a page, from the repository's root.

    >>> notebook("book/ch01_rooflines"), notebook("notebooks/ch01_rooflines/exercises"), notebook("book/intro")
    ('notebooks/ch01_rooflines/reading.ipynb', 'notebooks/ch01_rooflines/exercises.ipynb', None)
    """
    if found := PAGE.fullmatch(page):
        return f"notebooks/{reading_of(found[1])}"
    return f"{page}.ipynb" if EXERCISES.fullmatch(page) else None


def repository(url: str, environment=os.environ) -> str:
    """Where the notebooks of this build are.

    >>> repository("https://github.com/ada/course/", {})
    'https://github.com/ada/course'
    >>> repository("https://github.com/ada/course", {"GITHUB_REPOSITORY": "bob/course"})
    'https://github.com/bob/course'
    """
    if fork := environment.get("GITHUB_REPOSITORY"):
        url = f"{environment.get('GITHUB_SERVER_URL') or 'https://github.com'}/{fork}"
    return url.rstrip("/")


def addresses(url: str, branch: str, path: str) -> dict[str, str]:
    """Service -> the address that opens a notebook of a repository; Colab reads github.com only.

    >>> found = addresses("https://github.com/ada/course", "main", "notebooks/ch01_x/reading.ipynb")
    >>> found["Colab"]
    'https://colab.research.google.com/github/ada/course/blob/main/notebooks/ch01_x/reading.ipynb'
    >>> found["Binder"]
    'https://mybinder.org/v2/gh/ada/course/main?urlpath=lab/tree/notebooks/ch01_x/reading.ipynb'
    >>> addresses("https://git.example.edu/ada/course", "a/b", "n.ipynb")
    {'Binder': 'https://mybinder.org/v2/git/https%3A%2F%2Fgit.example.edu%2Fada%2Fcourse/a%2Fb?urlpath=lab/tree/n.ipynb'}
    """
    where, name = urlsplit(url), urlsplit(url).path.strip("/")
    ref, opened = quote(branch, safe=""), f"urlpath=lab/tree/{quote(path)}"
    if where.netloc != "github.com":
        return {"Binder": f"https://mybinder.org/v2/git/{quote(url, safe='')}/{ref}?{opened}"}
    return {
        "Colab": f"https://colab.research.google.com/github/{quote(name)}/blob/{quote(branch)}/{quote(path)}",
        "Binder": f"https://mybinder.org/v2/gh/{quote(name)}/{ref}?{opened}",
    }


def opened(app, page: str) -> dict[str, str]:
    """Service -> the address that opens the notebook of a page; nothing if it has none, or the book no repository."""
    path, theme = notebook(page), app.config.html_theme_options
    url, branch = theme.get("repository_url"), theme.get("repository_branch") or "main"
    return addresses(repository(url), branch, path) if url and path else {}


def add(app, page, template, context, doctree) -> None:
    """Put the links under the title of a page that has a notebook, and one to the repository where a page asks to clone it."""
    url = app.config.html_theme_options.get("repository_url")
    if "body" not in context or not url:
        return
    context["body"] = CLONE.sub(rf'<a href="{escape(repository(url))}">\1</a>', context["body"])
    if found := opened(app, page):
        kind = "chapter" if reading_of(page[5:]).endswith("/reading.ipynb") else "page"
        kind = "exercises" if page.endswith("/exercises") else kind
        links = " ".join(f'<a href="{escape(to)}">Open the {kind} in {where}</a>' for where, to in found.items())
        context["body"] = context["body"].replace("</h1>", f'</h1>\n<p class="launch">{links}</p>', 1)


def setup(app) -> dict:
    app.connect("html-page-context", add)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
