# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Makes a test program's source of a page's C++ snippets.

The first snippet defines types and stands in a namespace; each other one is the body of a test.

Usage: make_snippets.py PAGE.md SOURCE.cpp
"""

import pathlib
import re
import sys

HEAD = """// Made by tests/docs/make_snippets.py.
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "tests/docs/snippet_test.h"

namespace reprise::{name}_page {{
namespace {{

namespace rp = reprise;
"""
TEST = "\nTEST_F({suite}, Snippet{number}) {{\n{body}}}\n"
TAIL = """
}}  // namespace
}}  // namespace reprise::{name}_page
"""


def main():
    page, source = map(pathlib.Path, sys.argv[1:])
    name = page.stem.replace("-", "_")
    suite = "".join(map(str.capitalize, name.split("_"))) + "Page"
    types, *bodies = re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    tests = [
        TEST.format(suite=suite, number=number, body=body) for number, body in enumerate(bodies, 1)
    ]
    using = f"using {suite} = testing::SnippetTest;\n\n"
    source.write_text(
        HEAD.format(name=name) + using + types + "".join(tests) + TAIL.format(name=name)
    )


if __name__ == "__main__":
    main()
