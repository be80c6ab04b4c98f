# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Measures how much longer a source compiles with Reprise's headers than with LibTorch's alone.

Usage: compile_time.py --libtorch FOLDER --includes FOLDER --page benchmarks.md [--rounds N]

Compiles each pair of sources by turns, and compares the processor time of the compiler round by
round: as GCC is, and without its collections of garbage. One is due whenever its heap has doubled
since the last (GCC's manual, `ggc-min-expand`), so that the last bytes of a source may cost a
second beside torch/torch.h, or nothing. The table goes into the page's part "compile time".
"""

import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import tempfile

from marked_parts import write_part

# The part of a program that runs a callable; {} is where a region would be.
FUNCTION = """at::Tensor g(const at::Tensor&);
at::Tensor f(const at::Tensor& x) {{ return {}; }}
"""
MODEL = """struct BlockImpl : torch::nn::Module {{
  torch::Tensor forward(const torch::Tensor& x) {{ return x + down(torch::gelu(up(x))); }}
  torch::nn::Linear up = register_module("up", torch::nn::Linear(64, 256));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(256, 64));
}};
TORCH_MODULE(Block);
int main() {{
  Block block;
  torch::optim::SGD optimizer(block->parameters(), 0.1);
  for (int step = 0; step < 10; ++step) {{
    optimizer.zero_grad();
    const torch::Tensor x = torch::randn({{8, 64}});
    {}.sum().backward();
    optimizer.step();
  }}
}}
"""
PROGRAMS = {
    "a function": (FUNCTION, "g(x)", "reprise::checkpoint(&g, x)"),
    "a model": (MODEL, "block(x)", "reprise::checkpoint(block, x)"),
}
# A program, the header of LibTorch that it includes, that of Reprise besides, and how many times as
# many rounds it has.
SOURCES = [
    ("a model", "torch/torch.h", "reprise/engine/checkpoint.h", 1),
    ("a model", "torch/torch.h", "reprise/reprise.h", 1),
    ("a function", "torch/torch.h", "reprise/engine/checkpoint.h", 1),
    ("a function", "ATen/ATen.h", "reprise/engine/checkpoint.h", 2),
    ("a function", "ATen/core/Tensor.h", "reprise/engine/checkpoint.h", 5),
]
NO_COLLECTIONS = ["--param", "ggc-min-heapsize=16000000"]  # KiB, more than any source needs


def source(headers, program, call):
    return "".join(f"#include <{header}>\n" for header in headers) + program.format(call)


def seconds_of(command, text, folder):
    """Returns the processor time that the compiler takes for a source."""
    path = pathlib.Path(folder) / "source.cpp"
    path.write_text(text)
    before = os.times()
    subprocess.run([*command, str(path)], check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def measure(command, rounds):
    """Yields a source's words, and the seconds of each round: without and with Reprise's header,
    and both again without collections."""
    with tempfile.TemporaryDirectory() as folder:
        for name, theirs, ours, times in SOURCES:
            program, plain, region = PROGRAMS[name]
            texts = source([theirs], program, plain), source([theirs, ours], program, region)
            runs = [(command, text) for text in texts]
            runs += [(command + NO_COLLECTIONS, text) for text in texts]
            for run in runs[:2]:  # reads the headers from the disk
                seconds_of(*run, folder)
            seconds = [[seconds_of(*run, folder) for run in runs] for _ in range(rounds * times)]
            yield name, theirs, ours, seconds


def ratio(rounds):
    ratios = sorted(with_ours / without for without, with_ours in rounds)
    return f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f})"


def row(name, theirs, ours, rounds):
    without, with_ours = (statistics.median(side) for side in list(zip(*rounds))[:2])
    return (
        f"| {name} | `{theirs}` | `{ours}` | {without:.2f} s | {with_ours:.2f} s "
        f"| {ratio([r[:2] for r in rounds])} | {ratio([r[2:] for r in rounds])} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libtorch", type=pathlib.Path, required=True)
    parser.add_argument("--includes", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
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
            "Processor time of the compiler for a source with LibTorch's header alone, and with "
            "Reprise's besides; medians of rounds by turns, with the extremes of the ratio. "
            "`a function` calls another one, directly or in a region; `a model` defines a module of "
            "two linear layers and trains it, with the module's call in a region or not. GCC "
            "collects garbage whenever its heap has doubled: a source that is near such a limit pays a "
            "second more for any header. The last column is without collections "
            f"(`{' '.join(NO_COLLECTIONS)}`). GCC {version.stdout.strip()}, -O2, "
            f"{arguments.rounds} rounds or more, {datetime.date.today()}.",
            "",
            "| program | LibTorch's header | Reprise's | without | with | ratio | no collections |",
            "| :--- | :--- | :--- | ---: | ---: | ---: | ---: |",
            *rows,
        ]
    )
    print(text)
    write_part(arguments.page, "compile time", text)


if __name__ == "__main__":
    main()
