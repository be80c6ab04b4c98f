# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Sphinx's configuration: pages in Markdown as the code host renders them, in the theme Furo.

tools/docs copies the pages, with their paths in the repository, to Sphinx's source folder. A link
to a public header leads to its reference. A link to any other file that is no page leads to the
file below the address in REPRISE_DOCS_REPOSITORY (".../blob/main"); without one, its text remains.
"""

import os
import pathlib
import posixpath
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
FRONT_PAGE = "index"
REPOSITORY = os.environ.get("REPRISE_DOCS_REPOSITORY", "").rstrip("/")

project = "Reprise"
author = "The Reprise Authors"
project_copyright = "2026 The Reprise Authors"
version = release = ".".join(
    re.findall(r"REPRISE_VERSION_[A-Z]+ (\d+)", (ROOT / "base/version.h").read_text())
)
extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = FRONT_PAGE
nitpicky = True
exclude_patterns = []
templates_path = [str(HERE / "templates")]

html_theme = "furo"
html_title = f"Reprise {version}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "reference.html",
        "sidebar/scroll-end.html",
    ]
}
linkcheck_timeout = 30
linkcheck_retries = 2
# Addresses with lines of a source are no anchors of the page.
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]


def link_to(path, anchor, folder, text):
    """Returns the site's link to a path of the repository that is no page."""
    up = posixpath.relpath(".", folder or ".")
    if path == "README.md":
        return f"[{text}]({up}/{FRONT_PAGE}.md{anchor})"
    if path.endswith(".h") and path.count("/") <= 1:
        page = posixpath.basename(path).replace("_", "__").replace(".", "_8")
        return f'<a href="{up}/reference/{page}.html">{text}</a>'
    return f"[{text}]({REPOSITORY}/{path}{anchor})" if REPOSITORY else text


def resolve_links(app, page, source):
    """Replaces the links of a page that lead to no other page and no copied file."""
    folder = posixpath.dirname(page)

    def replaced(match):
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if (pathlib.Path(app.srcdir) / path).is_file() or not (ROOT / path).exists():
            return match[0]
        return link_to(path, anchor, folder, text)

    source[0] = LINK.sub(replaced, source[0])


def add_contents(app, page, source):
    """Puts the table of contents, which the sidebar shows, at the end of the front page."""
    if page == FRONT_PAGE:
        source[0] += "\n" + (HERE / "contents.md").read_text()


def setup(app):
    app.connect("source-read", resolve_links)
    app.connect("source-read", add_contents)
