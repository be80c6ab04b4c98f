# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Checks the commands in README, docs/ and the examples' pages, and those pages' excerpts of their
sources.

A command of tools/ must exist, and its options must occur in its own text or in the sources of the
program that it runs; presets, options and targets of CMake must be defined. Names in C++ on an
example's page must be names in the example, and C++ on any other page in a test.

Usage: check_commands.py. Exits with 1, and lists the faults, if there are some.
"""

import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE_PAGES = sorted(ROOT.glob("examples/*/README.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(tools/[^`]+)`")
OPTION = re.compile(r"(?<!\S)(--[a-z][a-z-]*)")
PROGRAMS = {"demo": "examples/01_char_gpt", "plan": "planner/command"}


def blocks_of(text, *languages):
    """Returns a page's blocks of code in these languages."""
    return [block for language, block in FENCE.findall(text) if language in languages]


def text_of(folder, *patterns):
    """Returns the text of a folder's files."""
    paths = sorted(path for pattern in patterns for path in (ROOT / folder).glob(pattern))
    return "\n".join(path.read_text() for path in paths if path.is_file())


def example_named(name):
    """Returns the folder of an example, relative to the root, or None."""
    found = [path for path in ROOT.glob("examples/*_*") if path.name[3:] == name]
    return f"examples/{found[0].name}" if found else None


def sources_of(words):
    """Returns the text that must have the options of a command, or None if it is not ours."""
    tool = re.fullmatch(r"tools/([\w-]+)", words[0])
    if not tool:
        example = example_named(words[0].removeprefix("build/"))
        return text_of(example, "*.cpp") if example else None
    path = ROOT / words[0]
    if not os.access(path, os.X_OK):
        return ""
    folder = next(filter(None, map(example_named, words[1:])), PROGRAMS.get(tool[1]))
    return path.read_text() + (text_of(folder, "*.cpp") if folder else "")


def faults_of_command(command, presets, cmake):
    """Yields what is wrong with a command."""
    words = command.split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if not words:
        return
    sources = sources_of(words)
    if sources == "":
        yield "no such command"
    elif sources is not None:
        yield from (f"no option {name}" for name in OPTION.findall(command) if name not in sources)
    if words[0] == "cmake":
        yield from (
            f"no preset {name}"
            for name in re.findall(r"--preset (\S+)", command)
            if name not in presets
        )
    yield from (
        f"no option {name}"
        for name in re.findall(r"-D(REPRISE_\w+)", command)
        if not re.search(rf"\b{name}\b", cmake)
    )


def commands_of(text):
    """Yields a page's commands."""
    for block in blocks_of(text, "sh", "bash", ""):
        for line in block.replace("\\\n", " ").splitlines():
            yield from re.split(r"&&|&|;(?=\s)", re.sub(r"(?:^|\s)#.*", "", line))
    yield from (span for span in INLINE.findall(text) if "`" not in span)


def faults_of_excerpts(page):
    """Yields the names in the C++ of an example's page that its sources do not have."""
    sources = set(re.findall(r"\w+", text_of(page.parent, "*.cpp", "*.h")))
    for block in blocks_of(page.read_text(), "cpp"):
        code = re.sub(r"//.*", "", block)
        yield from (
            f"no {name} in the sources" for name in re.findall(r"\w+", code) if name not in sources
        )


def main():
    presets = {
        p["name"] for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    }
    cmake = text_of(".", "CMakeLists.txt", "cmake/*", "*/CMakeLists.txt")
    commands, faults = 0, []
    for page in [*PAGES, *EXAMPLE_PAGES]:
        text = page.read_text()
        for command in commands_of(text):
            commands += 1
            found = faults_of_command(command, presets, cmake)
            faults += (f"{page.relative_to(ROOT)}: {command.strip()}: {fault}" for fault in found)
        targets = re.findall(r"reprise::\w+", "".join(blocks_of(text, "cmake")))
        faults += (
            f"{page.relative_to(ROOT)}: no target {name}"
            for name in targets
            if not is_target(name, cmake)
        )
    tests = (ROOT / "tests/CMakeLists.txt").read_text()
    for page in PAGES:
        name = page.relative_to(ROOT).with_suffix("")
        if blocks_of(page.read_text(), "cpp") and not re.search(rf"\b{name}\b", tests):
            faults.append(f"{name}.md: its C++ is not in docs_test, see tests/CMakeLists.txt")
    for page in EXAMPLE_PAGES:
        faults += (f"{page.relative_to(ROOT)}: {fault}" for fault in faults_of_excerpts(page))
    print("\n".join([*faults, f"{commands} commands, {len(faults)} faults"]))
    return 1 if faults or not commands else 0


def is_target(name, cmake):
    """Returns whether CMake files define reprise::NAME, as a component or by an alias."""
    component = name.removeprefix("reprise::")
    return name in cmake or (ROOT / component / "CMakeLists.txt").exists()


if __name__ == "__main__":
    sys.exit(main())
