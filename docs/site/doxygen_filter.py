# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Turns the plain comments of a public header into Doxygen's, for Doxygen's INPUT_FILTER.

A comment before a declaration documents it, and one at the end of a line the member or enumerator
in that line. "Throws:", "Stream:" and the like open sections, "name:" documents a parameter, and
text that is indented otherwise is an example.

Usage: doxygen_filter.py HEADER
"""

import itertools
import pathlib
import re
import sys

COMMENT = re.compile(r"^\s*//(?: (.*)|)$")
TRAILING = re.compile(r"^(.*[^\s/].*[;,]|\s+\w+)  +// (?!NOLINT)(.*)$")
SECTION = re.compile(r"^(Example|Gradients|Include|Stream|Thread-safety|Throws|Time): ?(.*)$")
PARAMETER = re.compile(r"^(\w+): (.*)$")
LITERAL = re.compile(r"""(`[^`]*`|"[^"]*")""")
CLASS = re.compile(r"^(template|class|struct|enum) [^;]*$")
# Members that only say that there is no copy, and attributes that Doxygen takes for names.
NOISE = re.compile(r"^.*\) = delete;$|\[\[nodiscard\]\] |REPRISE_API |\s*// NOLINT.*$")


def escaped(text):
    """Returns text in which Doxygen finds no commands; it takes quotations and code spans as they are."""
    parts = LITERAL.split(text)
    parts[::2] = [re.sub(r"([<>@\\#&$])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def is_code(text, previous, in_section):
    """Returns whether an indented line is an example's, not the continuation of a paragraph."""
    starts_anew = previous == "" or previous.endswith(":")
    return (
        text.startswith("  ")
        and not text.lstrip().startswith("- ")
        and starts_anew
        and not in_section
    )


def documentation(texts, declaration):
    """Yields the lines of a Doxygen comment with these texts, for a declaration."""
    in_code = in_section = False
    previous = ""
    for text in texts:
        if in_code and text and not text.startswith("  "):
            in_code = False
            yield "@endcode"
        elif not in_code and is_code(text, previous, in_section):
            in_code = True
            yield "@code{.cpp}"
        if in_code:
            yield text[2:]
        elif section := SECTION.match(text):
            in_section = bool(section[2])
            yield f"@par {section[1]}"
            yield escaped(section[2][:1].upper() + section[2][1:])
        elif text.startswith("Returns: "):
            in_section = True
            yield "@returns " + escaped(text[len("Returns: ") :])
        elif (name := PARAMETER.match(text)) and re.search(rf"\b{name[1]}\b", declaration):
            in_section = True
            yield f"@param {name[1]} {escaped(name[2])}"
        else:
            in_section = in_section and text.startswith("  ")
            yield escaped(text.strip() if in_section else text)
        previous = text
    if in_code:
        yield "@endcode"


def declaration_at(lines):
    """Returns the start of a declaration, up to its body or end."""
    text = " ".join(itertools.takewhile(lambda line: not COMMENT.match(line), lines[:12]))
    return re.split(r"[;{]", text, maxsplit=1)[0]


def without_private_parts(lines):
    """Yields the lines that are not in a private section: Doxygen links to the classes in it."""
    end = None
    for line in lines:
        if end and end.match(line):
            end = None
        if private := re.fullmatch(r"( *) private:", line):
            end = re.compile(f"{private[1]}(}};| public:| protected:)")
        if not end:
            yield line


def filtered(lines, included_as):
    """Yields the lines of a header with Doxygen's comments."""
    at = 0
    while at < len(lines):
        begin = at
        while at < len(lines) and COMMENT.match(lines[at]):
            at += 1
        texts = [COMMENT.match(line)[1] or "" for line in lines[begin:at]]
        if texts and texts[0].startswith("SPDX-"):
            yield "/// @file"
            texts = list(itertools.dropwhile(lambda text: not text.startswith("File: "), texts))[1:]
            texts += ["", "Include:", "", f'  #include "{included_as}"']
        for text in documentation(texts, declaration_at(lines[at:])):
            yield f"/// {text}".rstrip()
        if at < len(lines):
            line = lines[at]
            if not texts and CLASS.match(line) and not lines[at - 1].startswith("template"):
                yield f"/// See @ref {included_as}."
            if trailing := TRAILING.match(line):
                line = f"{trailing[1]}  ///< {escaped(trailing[2])}"
            yield line if line.startswith("#") else NOISE.sub("", line)
            at += 1


def main():
    path = pathlib.Path(sys.argv[1])
    included_as = "reprise/" + path.as_posix().rpartition("/reprise/")[2]
    lines = list(without_private_parts(path.read_text().splitlines()))
    print("\n".join(filtered(lines, included_as)))


if __name__ == "__main__":
    main()
