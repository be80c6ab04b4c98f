# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""python -m reprise profile: what autograd saves in a program, and what less memory costs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from reprise import _profile_page
from reprise._budget import MemoryBudget
from reprise._largest_batch import OtherBatch, batch_lines
from reprise._quantities import bytes_text
from reprise._run import NO_LIMIT, device_of, enter_step, warn
from reprise._saved import RecordedModules, SavedTensors, record_modules, saved_tensors
from reprise._script import run_program
from reprise._steps import Steps

__all__ = ["ProfileOfProgram", "frontier_lines"]


class _Enough(BaseException):
    """Ends the program: all steps have been seen."""


class ProfileOfProgram:
    """Observes the first steps of a program: the first one as it is, the others for their times.

    Args:
        steps: how many, at least 2.
    """

    def __init__(self, steps: int):
        self._most = steps
        self._seen = 0
        self._modules: RecordedModules | None = None
        self._bill: SavedTensors | None = None
        self._budget: MemoryBudget | None = None
        self._steps = Steps(self._begin, self._at_backward)

    def install(self) -> None:
        self._steps.install()

    def _begin(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any] | None:
        if self._bill is not None and self._seen >= self._most:
            raise _Enough
        self._seen += 1
        if self._bill is None:
            return self._first_step(module)
        try:
            if self._budget is None:
                self._budget = MemoryBudget(peak_bytes=NO_LIMIT, device=device_of(module))
            return enter_step(self._budget)
        except (RuntimeError, ValueError) as error:
            warn(f"a step is not observed: {str(error).splitlines()[0]}")
            return None

    def _first_step(self, module: nn.Module) -> AbstractContextManager[Any]:
        stack = contextlib.ExitStack()
        self._modules = stack.enter_context(record_modules(module))
        return stack

    def _at_backward(self, roots: Sequence[Any]) -> None:
        if self._bill is None:
            roots = [roots] if isinstance(roots, torch.Tensor) else list(roots)
            self._bill = saved_tensors(roots, modules=self._modules)

    def run(self, name: str, arguments: Sequence[str], is_module: bool) -> int:
        """Runs the program to the end of its last step; returns its exit status."""
        try:
            return run_program(name, arguments, is_module, ends_at=_Enough)
        finally:
            self._steps.end()

    def _without_step(self) -> int:
        warn("no step was found: no module was called with grad mode on, and then a backward")
        return 1

    def show(
        self,
        points: int,
        page: str | None,
        other: OtherBatch | None = None,
        limit: int | float = 1.0,
    ) -> int:
        """Prints what has been found, and writes it as a page; returns an exit status.

        Args:
            points: how many budgets the table of memory and time has.
            page: the path of the page; None: none is written.
            other: a run with another batch, for the largest batch that fits.
            limit: into these bytes; a float: into this part of the peak of a plain step.
        """
        if self._bill is None:
            return self._without_step()
        print(self._bill)
        frontier = self._budget._frontier(points) if self._budget is not None else None
        print("", *frontier_lines(frontier), sep="\n")
        largest = None
        if other is not None and self._budget is not None and frontier is not None:
            part = limit * frontier["plain_peak_bytes"] if isinstance(limit, float) else limit
            try:
                largest = other.largest(self._budget, round(part))
            except ValueError as error:
                warn(str(error))
                return 1
            print("", *batch_lines(largest), sep="\n")
        if page is not None:
            _profile_page.write_page(page, self._bill, frontier, largest)
        return 0

    def write_trace(self, path: str) -> int:
        """Writes the last step, as tools/plan reads it; returns an exit status."""
        if self._bill is None:
            return self._without_step()
        if self._budget is None or self._budget.last_step() is None:
            warn("no second step has come to its end, so that there is no trace")
            return 1
        self._budget.write_trace(path)
        return 0


def frontier_lines(frontier: dict[str, Any] | None) -> list[str]:
    """Returns a table of memory and time, and the smallest budget."""
    if frontier is None:
        return ["no second step has come to its end, so that nothing is known of times"]
    plain_bytes, plain = frontier["plain_peak_bytes"], frontier["plain_seconds"]
    lines = [
        f"a plain step needs {bytes_text(plain_bytes)} at its peak, of which "
        f"{bytes_text(frontier['before_bytes'])} exist before it, and {plain:.4g} s",
        "budget      of the plain peak  more time  no plan has less than",
    ]
    for each in frontier["frontier"]:
        more, bound = (each[key] / plain - 1 for key in ("seconds", "bound_seconds"))
        lines.append(
            f"{bytes_text(each['peak_bytes']):12}{each['peak_bytes'] / plain_bytes:<19.1%}"
            f"{more:<11.1%}{max(0.0, bound):.1%}"
        )
    smallest = frontier["frontier"][0]["peak_bytes"]
    lines.append(
        f"the smallest budget that holds: {bytes_text(smallest)} (--budget {smallest}); none is below "
        f"{bytes_text(frontier['least_bytes'])}"
    )
    return lines
