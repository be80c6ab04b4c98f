# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Checks that each message which docs/troubleshooting.md explains is one of the sources'.

A key is code in bold, or code in the first cell of a table with the head "message". Its parts
between "…" must occur in the string literals of one file: in one, in adjacent ones, or composed of
several, as by c10::str(). Keys of other programs ("CMake: ...", "LibTorch: ...") are left out.

Usage: check_troubleshooting.py. Exits with 1, and lists the keys, if some are not in the sources.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPONENTS = "base engine hooks policies rng partition planner python cmake".split()
SHORTEST = 8
CODE = re.compile(r"(`+)(.+?)\1")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|(?<=[\s(,])\'((?:[^\'\\\n]|\\.)*)\'', re.DOTALL)
COMMENT = re.compile(r"^\s*(?://|#(?!\s*define)).*$", re.MULTILINE)
BETWEEN = re.compile(r"[\sfr]*")
ESCAPES = {"n": "\n", "t": "\t", "\n": ""}


def keys_of(page):
    head = ""  # of the table that the line is in
    for line in re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines():
        if not line.startswith("| "):
            head = ""
            yield from (code for _, code in re.findall(r"\*\*(`+)(.+?)\1\*\*", line))
        elif not head:
            head = line
        elif head.startswith("| message") and not re.match(r"\| (?:-|\w+: )", line):
            yield from (code for _, code in CODE.findall(line.split(" | ")[0]))


def literals_of(path):
    """Returns the string literals of a file, adjacent ones joined."""
    text = COMMENT.sub("", path.read_text())
    if path.suffix == ".py":
        text = re.sub(r'"""(.*?)"""', "", text, flags=re.DOTALL)
    literals, end = [], None
    for match in LITERAL.finditer(text):
        raw = match[1] if match[1] is not None else match[2]
        literal = re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), raw, flags=re.DOTALL)
        if end is not None and BETWEEN.fullmatch(text, end, match.start()):
            literals[-1] += literal
        else:
            literals.append(literal)
        end = match.end()
    return literals


def is_composed(part, literals, is_start=True):
    """Returns whether `part` is the end of a literal, whole literals, and the start of one."""
    for literal in literals:
        if literal.startswith(part) or (is_start and part in literal):
            return True
        lengths = range(len(literal), 2, -1) if is_start else [len(literal)]
        for length in lengths:
            is_next = 3 <= length < len(part) and part.startswith(literal[-length:])
            if is_next and is_composed(part[length:], literals, is_start=False):
                return True
    return False


def main():
    page = (ROOT / "docs/troubleshooting.md").read_text()
    suffixes = {".cpp", ".h", ".cu", ".py", ".cmake", ".txt"}
    paths = [p for name in COMPONENTS for p in (ROOT / name).rglob("*") if p.suffix in suffixes]
    sources = [literals_of(path) for path in paths]
    keys = list(dict.fromkeys(keys_of(page)))
    missing = []
    for key in keys:
        parts = [part for part in key.split("…") if len(part) >= SHORTEST]
        if not parts or not any(
            all(is_composed(part, literals) for part in parts) for literals in sources
        ):
            missing.append(key)
    for key in missing:
        print(f"docs/troubleshooting.md: no source has the message `{key}`")
    print(f"{len(keys) - len(missing)} of {len(keys)} messages are in the sources")
    return 1 if missing or not keys else 0


if __name__ == "__main__":
    sys.exit(main())
