# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Checks the links in the repository's Markdown files, as a code host resolves them.

A link must lead to a file or folder of the repository, and its anchor to a heading of that page.
Links to other sites are left out: tools/docs --online checks them.

Usage: check_links.py. Exits with 1, and lists the links, if some lead nowhere.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATTERNS = ["*.md", "docs/*.md", "examples/*/README.md", "tests/README.md", "packaging/**/*.md"]
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|\b(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)? *$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def anchor_of(heading):
    """Returns the anchor that code hosts give to a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors_of(text):
    """Returns the anchors of a page, with numbers where headings repeat."""
    seen = collections.Counter()
    anchors = set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))
    for heading in HEADING.findall(FENCE.sub("", text)):
        anchor = anchor_of(heading)
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


def links_of(text):
    """Yields a page's links but for those in code."""
    for link in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        yield link[0] or link[1]


def fault_of(link, page):
    """Returns the reason why a link of a page is broken, or None."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return "no such file"
    if not target.is_relative_to(ROOT):
        return "outside of the repository"
    if anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text()):
        return "no such heading"
    return None


def main():
    pages = sorted({page for pattern in PATTERNS for page in ROOT.glob(pattern)})
    checked = broken = 0
    for page in pages:
        for link in links_of(page.read_text()):
            if ELSEWHERE.match(link):
                continue
            checked += 1
            if fault := fault_of(link, page):
                broken += 1
                print(f"{page.relative_to(ROOT)}: {link}: {fault}")
    print(f"{checked - broken} of {checked} links of {len(pages)} pages lead to something")
    return 1 if broken or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
