# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Parts of a page between marks. Text outside the marks is left alone."""

BEGIN = "<!-- {}: begin; written by tools/bench -->"
END = "<!-- {}: end -->"


def replace_marked(path, name, text):
    """Puts `text` between the marks of that name, if the page has them."""
    begin, end = BEGIN.format(name), END.format(name)
    old = path.read_text() if path.exists() else ""
    if begin in old:
        before, rest = old.split(begin)
        path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def write_part(path, name, text):
    """Puts `text` into the page's part of that name, which is added at its end if there is none."""
    begin, end = BEGIN.format(name), END.format(name)
    old = path.read_text() if path.exists() else ""
    if begin not in old:
        gap = "\n" if old else ""
        path.write_text(f"{old}{gap}{begin}\n{end}\n")
    replace_marked(path, name, text)
