# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Measures how much longer a source compiles with Reprise's headers than with LibTorch's alone.

Usage: compile_time.py --libtorch FOLDER --includes FOLDER --page benchmarks.md [--rounds N]

Compiles each pair of sources by turns, and compares the processor time of the compiler round by
round. The table goes into the page's part "compile time".
"""

import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import tempfile

from marked_parts import write_part

CALL = "at::Tensor f(const at::Tensor& x) { return g(x); }\n"
REGION = "at::Tensor f(const at::Tensor& x) { return reprise::checkpoint(&g, x); }\n"
DECLARATION = "at::Tensor g(const at::Tensor&);\n"
# The headers that a source includes: of LibTorch, and of Reprise besides.
SOURCES = [
    ("torch/torch.h", "reprise/engine/checkpoint.h"),
    ("torch/torch.h", "reprise/reprise.h"),
    ("ATen/ATen.h", "reprise/engine/checkpoint.h"),
    ("ATen/core/Tensor.h", "reprise/engine/checkpoint.h"),
]


def source(headers, body):
    return "".join(f"#include <{header}>\n" for header in headers) + DECLARATION + body


def seconds_of(command, text, folder):
    """Returns the processor time that the compiler takes for a source."""
    path = pathlib.Path(folder) / "source.cpp"
    path.write_text(text)
    before = os.times()
    subprocess.run([*command, str(path)], check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def measure(command, rounds):
    """Yields the headers, and the seconds of each round without and with Reprise's."""
    with tempfile.TemporaryDirectory() as folder:
        for theirs, ours in SOURCES:
            texts = source([theirs], CALL), source([theirs, ours], REGION)
            for text in texts:  # reads the headers from the disk
                seconds_of(command, text, folder)
            yield (
                theirs,
                ours,
                [[seconds_of(command, t, folder) for t in texts] for _ in range(rounds)],
            )


def row(theirs, ours, rounds):
    ratios = sorted(with_ours / without for without, with_ours in rounds)
    middle = [statistics.median(side) for side in zip(*rounds)]
    return (
        f"| `{theirs}` | `{ours}` | {middle[0]:.2f} s | {middle[1]:.2f} s "
        f"| {statistics.median(ratios):.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f}) |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libtorch", type=pathlib.Path, required=True)
    parser.add_argument("--includes", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch = arguments.libtorch / "include"
    folders = [torch, torch / "torch" / "csrc" / "api" / "include"]
    command = ["c++", "-std=c++20", "-O2", "-c", "-o", "/dev/null"]
    command += [word for folder in folders for word in ("-isystem", str(folder))]
    command += [f"-I{folder}" for folder in sorted(arguments.includes.iterdir())]
    version = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True)
    rows = [row(*measured) for measured in measure(command, arguments.rounds)]
    text = "\n".join(
        [
            "## Compile time",
            "",
            "Processor time of the compiler for a source with LibTorch's header alone, which calls a "
            "function, and with Reprise's besides, which calls it in a region; medians of "
            f"{arguments.rounds} rounds by turns, with the extremes of the ratio. GCC "
            f"{version.stdout.strip()}, -O2, {datetime.date.today()}.",
            "",
            "| LibTorch's header | Reprise's | without | with | ratio |",
            "| :--- | :--- | ---: | ---: | ---: |",
            *rows,
        ]
    )
    print(text)
    write_part(arguments.page, "compile time", text)


if __name__ == "__main__":
    main()
