# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Compares the symbols that the shared libraries below a build folder export with those listed.

Usage: check_symbols.py FOLDER LIST VERSION [--update]

VERSION is the one that each symbol must have, such as REPRISE_1.0. A line of LIST is a demangled
symbol; --update writes it anew. Exits with 1, and prints the differences, if there are some.
"""

import pathlib
import subprocess
import sys


def symbols_of(library, version):
    """Returns the demangled symbols that a library defines, and those without the version."""
    lines = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--with-symbol-versions", "--demangle", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    names, unversioned = set(), set()
    for line in lines:
        kind, name = line.split(" ", 2)[1:]
        if kind == "A":  # the version itself
            continue
        name, _, found = name.partition("@@")
        names.add(name)
        if found != version:
            unversioned.add(f"{library.name}: {name} has the version '{found}'")
    return names, unversioned


def main():
    folder, listed_in, version = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    exported, unversioned = set(), set()
    libraries = sorted(folder.glob("*/libreprise_*.so"))
    for library in libraries:
        names, without = symbols_of(library, version)
        exported |= names
        unversioned |= without
    if "--update" in sys.argv:
        listed_in.write_text("".join(f"{name}\n" for name in sorted(exported)))
    listed = set(listed_in.read_text().splitlines())
    for name in sorted(exported - listed):
        print(f"exported, but not in {listed_in.name}: {name}")
    for name in sorted(listed - exported):
        print(f"in {listed_in.name}, but not exported: {name}")
    print(*sorted(unversioned), sep="\n")
    print(f"{len(libraries)} libraries export {len(exported)} symbols")
    return 0 if exported == listed and exported and not unversioned else 1


if __name__ == "__main__":
    sys.exit(main())
