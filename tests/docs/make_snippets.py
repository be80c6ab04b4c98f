# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Makes a test program's source of a page's C++ snippets.

A snippet that defines functions or types stands in the page's namespace, where the snippets after
it see it; any other is the body of a test. The tests' fixture is `Context` of context/PAGE.h, if
there is one, else SnippetTest, and calls/PAGE.h, if there is one, has tests that call the snippets'
functions; main() is program() there. A comment in the line before a snippet may say that its test
is to end with an exception, or that it is only compiled, and why:

    <!-- throws: reprise::MutationError -->
    <!-- not run: needs two ranks -->

Usage: make_snippets.py PAGE.md SOURCE.cpp
"""

import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
HEAD = """// Made by tests/docs/make_snippets.py.
#include <torch/torch.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "tests/docs/snippet_test.h"
{includes}
// A snippet shows how to obtain a value, not what to do with it.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

namespace reprise::{name}_page {{

namespace rp = reprise;
class {suite} : public {fixture} {{}};
"""
TEST = "\nTEST_F({suite}, Snippet{number}) {{\n{body}}}\n"
THROWS = "\nTEST_F({suite}, Snippet{number}) {{\nauto run = [&] {{\n{body}}};\nEXPECT_THROW(run(), {argument});\n}}\n"
NOT_RUN = (
    "\nclass NotRun{number} : public {suite} {{\n void TestBody() override {{\n{body}}}\n}};\n"
)
TAIL = """
}}  // namespace reprise::{name}_page
{calls}"""
SNIPPET = re.compile(
    r"^(?:<!-- (?P<mark>throws|not run): (?P<argument>.*?) -->\n+)?```cpp\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
INCLUDE = re.compile(r"^#include .*\n", re.MULTILINE)
# At the start of a line, and so not within a function.
FUNCTION = re.compile(
    r"^(?!return\b)[\w:<>&*]+(?: [\w:<>&*]+)* [\w:]+\([^;]*?\) (?:const )?\{$", re.MULTILINE
)
TYPE = re.compile(r"\s*(?://.*\n\s*)*(?:struct|class|template|thread_local)\b")


def defines(text):
    """Returns whether a snippet consists of definitions."""
    last = [line for line in text.splitlines() if line and not line.startswith((" ", "//"))][-1]
    is_type = TYPE.match(text) and re.match(r"\};|TORCH_MODULE", last)
    return bool(FUNCTION.search(text) or is_type)


def source_of(match, number, suite):
    """Returns the C++ of one snippet."""
    text = INCLUDE.sub("", match["text"]).replace("int main() {", "void program() {")
    if not text.replace("namespace rp = reprise;", "").strip():
        return ""
    if defines(text):
        return "\n" + text
    form = {None: TEST, "throws": THROWS, "not run": NOT_RUN}[match["mark"]]
    return form.format(suite=suite, number=number, body=text, argument=match["argument"])


def source_of_page(page):
    """Returns the C++ of a page's snippets."""
    name = page.stem.replace("-", "_").lower()
    suite = "".join(map(str.capitalize, name.split("_"))) + "Page"
    snippets = list(SNIPPET.finditer(page.read_text()))
    includes = sorted({line for match in snippets for line in INCLUDE.findall(match["text"])})
    has_context = (FOLDER / f"context/{name}.h").exists()
    if has_context:
        includes.append(f'#include "tests/docs/context/{name}.h"\n')
    has_calls = (FOLDER / f"calls/{name}.h").exists()
    calls = f'\n#include "tests/docs/calls/{name}.h"\n' if has_calls else ""
    fixture = "Context" if has_context else "testing::SnippetTest"
    head = HEAD.format(name=name, suite=suite, includes="".join(includes), fixture=fixture)
    sources = [source_of(match, number, suite) for number, match in enumerate(snippets, 1)]
    return head + "".join(sources) + TAIL.format(name=name, calls=calls)


def main():
    page, source = map(pathlib.Path, sys.argv[1:])
    source.write_text(source_of_page(page))


if __name__ == "__main__":
    main()
