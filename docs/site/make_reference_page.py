# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Makes the reference's first page: the public headers by component, each with its first sentence.

Usage: make_reference_page.py PAGE.md HEADER...
"""

import itertools
import pathlib
import re
import sys

import doxygen_filter

HEAD = """# C++ reference

Most programs need one header, `"reprise/reprise.h"`. It leaves out `checkpointed.h` and
`checkpointed_module.h`, which include torch/nn, and `process_group.h`, which includes c10d.
"""
LIST = "\n## {component}/\n\n"


def first_sentence(header):
    """Returns the first sentence of a header's file comment, on one line."""
    lines = itertools.takewhile(lambda line: line.startswith("//"), header.read_text().splitlines())
    comment = "\n".join(line[2:].strip() for line in lines)
    text = re.search(r"^File: .*\n\n((?:.+\n?)+)", comment, re.MULTILINE)[1]
    sentence = re.match(r".*?(?:[.:](?=\s)|\Z)", text, re.DOTALL)[0]
    return " ".join(sentence.rstrip(".:").split()) + "."


def main():
    page, *headers = map(pathlib.Path, sys.argv[1:])
    text = HEAD
    for component, members in itertools.groupby(headers, lambda header: header.parent.name):
        text += LIST.format(component=component)
        for header in members:
            about = doxygen_filter.escaped(first_sentence(header))
            text += f'- @ref {header.name} "{header.name}": {about}\n'
    page.write_text(text)


if __name__ == "__main__":
    main()
