# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The largest batch of a program that fits, predicted from runs with two batches."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reprise._native import _C
from reprise._quantities import bytes_text

if TYPE_CHECKING:
    from reprise._budget import MemoryBudget

__all__ = ["BatchNotFound", "OtherBatch", "batch_lines", "batch_rows", "batch_title"]

_OVERHEADS = (0.0, 0.1, 0.25, math.inf)
_MOST = 1 << 20  # no larger batch is considered


class BatchNotFound(ValueError):
    """The batch is not to be found among a program's arguments."""


def _with_batch(arguments: Sequence[str], batch: int, option: str | None) -> tuple[int, list[str]]:
    """Returns the batch of a program's arguments, and the arguments with another one.

    Args:
        arguments: with `--batch-size 8`, `--batch-size=8` or `batch_size=8` among them.
        batch: the other one.
        option: its name; None: the only one that has "batch" in its name and a number after it.

    Raises:
        BatchNotFound: If there is no such argument, or if there are several.
    """
    found: list[tuple[int, list[str]]] = []
    for i, argument in enumerate(arguments):
        key, equals, value = argument.partition("=")
        place, begin = i, f"{key}="
        if not equals:
            place, begin = i + 1, ""
            value = arguments[place] if argument.startswith("-") and place < len(arguments) else ""
        name = key.lstrip("-")
        is_meant = name == option.lstrip("-") if option is not None else "batch" in name.lower()
        if is_meant and value.isdecimal():
            changed = [*arguments[:place], f"{begin}{batch}", *arguments[place + 1 :]]
            found.append((int(value), changed))
    if len(found) != 1:
        raise BatchNotFound(
            f"--also-batch needs one argument of the program with its batch, such as --batch-size 8; "
            f"{len(found)} are like that: name it by --batch-option"
        )
    if batch in (found[0][0], 0):
        raise BatchNotFound(f"--also-batch takes another batch than {batch}, above 0")
    return found[0]


class OtherBatch:
    """A second run of a program, with another batch.

    Args:
        arguments: of the program.
        batch: of the second run.
        option: the program's option for it; None: the only one with "batch" in its name.

    Raises:
        BatchNotFound: If the arguments do not name the first batch, or name this one.
    """

    def __init__(self, arguments: Sequence[str], batch: int, option: str | None):
        self._batch, self._arguments = _with_batch(arguments, batch, option)
        self._other = batch
        self._folder = tempfile.TemporaryDirectory()
        self._trace = os.path.join(self._folder.name, "other")

    def run(self, program: str, is_module: bool, steps: int) -> int:
        """Runs the program in a process of its own; returns the exit status.

        Its output is not shown, unless it fails.
        """
        command = [sys.executable, "-m", "reprise", "profile", "--steps", str(steps)]
        command += ["--trace", self._trace, *(["-m"] if is_module else []), program]
        done = subprocess.run(
            [*command, *self._arguments], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and not os.path.exists(self._trace):
            done.returncode = 1
        if done.returncode != 0:
            print(done.stderr, end="", file=sys.stderr)
            print(f"reprise: the run with a batch of {self._other} has failed", file=sys.stderr)
        return done.returncode

    def largest(self, budget: MemoryBudget, limit: int) -> dict[str, Any]:
        """Returns the largest batches whose steps fit into so many bytes, by how much time they may take.

        Raises:
            ValueError: If the two batches have different operators.
        """
        own = os.path.join(self._folder.name, "own")
        budget.write_trace(own)
        found = _C.largest_batches(
            (own, self._trace), (self._batch, self._other), limit, list(_OVERHEADS)
        )
        return {
            "batches": (self._batch, self._other),
            "limit_bytes": limit,
            "found": list(zip(_OVERHEADS, found, strict=True)),
        }


def batch_rows(largest: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Returns the rows of a table: the time allowed, the batch, its time and its peak."""
    rows = []
    for allowed, each in largest["found"]:
        text = "any" if math.isinf(allowed) else f"{allowed:.0%}"
        if each is None:
            rows.append((text, "none", "", ""))
            continue
        more = max(0.0, each["seconds"] / each["plain_seconds"] - 1) if each["plain_seconds"] else 0
        batch = f"{each['batch']}{' or more' if each['batch'] == _MOST else ''}"
        rows.append((text, batch, f"{more:.1%}", bytes_text(each["peak_bytes"])))
    return rows


def batch_title(largest: dict[str, Any]) -> str:
    """Returns what the table is about."""
    one, other = largest["batches"]
    limit = largest["limit_bytes"]
    return (
        f"the largest batch within {bytes_text(limit)} (--budget {limit}), predicted from batches of "
        f"{one} and {other}"
    )


def batch_lines(largest: dict[str, Any]) -> list[str]:
    """Returns a table of the largest batches."""
    lines = [f"{batch_title(largest)}:", "allowed time  batch           more time  peak"]
    for allowed, batch, more, peak in batch_rows(largest):
        lines.append(f"{allowed:14}{batch:16}{more:11}{peak}".rstrip())
    return lines
