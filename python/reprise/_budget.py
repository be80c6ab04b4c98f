# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""MemoryBudget: a limit on the memory of training steps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from reprise import _engine, _report
from reprise._native import _C

if TYPE_CHECKING:
    from reprise.stores import ActivationStore

__all__ = ["MemoryBudget"]


def _with_index(device: torch.device) -> torch.device:
    """Returns the device; without an index, the current one of its kind."""
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, torch.get_device_module(device).current_device())


class _Step(_C.BudgetScope):
    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _engine.raise_budget_error(error[1])


class MemoryBudget(_C.MemoryBudget):
    """Limits the memory of training steps, and keeps them as fast as can be within it.

    >>> budget = reprise.MemoryBudget()  # all that the device has to give; lives as long as training
    >>> for batch, target in loader:
    ...     with budget.step():
    ...         loss = torch.nn.functional.cross_entropy(model(batch), target)
    ...     loss.backward()
    ...     optimizer.step()
    >>> print(budget.report())

    A step that does not fit raises BudgetExceededError, a torch.OutOfMemoryError, in forward or in
    backward.

    Args:
        peak_bytes: the most bytes of the device's tensors in use at any moment of forward and
            backward, parameters and gradients included.
        max_overhead: instead: the least memory for at most so much more time (0.1: a tenth).
        fraction: instead, and 1 without any of them: this part of all that the device has to give
            when a step begins: what is in use and what can still be allocated, less reserve_bytes.
            On the CPU that is the least of what the limits of the process (RLIMIT_AS, RLIMIT_DATA),
            of its control group and of the machine leave; on an accelerator its free memory and its
            cache.
        reserve_bytes: what stays free besides. None: a 32nd of the limit, from 64 MiB to 1 GiB.
        device: whose memory it is: a torch.device, its name, or the index of an accelerator; on the
            CPU the budget is kept before each allocation, on an accelerator between operators.
        stores: where plans may put tensors, if that takes less time than to compute them again.
        plans_in_background: plans are made on a thread of the budget while steps go on, instead of
            between two steps: no step waits. Which steps follow a plan depends on the machine's
            speed.

    Raises:
        ValueError: If options contradict each other.
    """

    def __init__(
        self,
        *,
        peak_bytes: int | None = None,
        max_overhead: float | None = None,
        fraction: float | None = None,
        reserve_bytes: int | None = None,
        device: torch.device | str | int = "cpu",
        stores: Sequence[ActivationStore] = (),
        plans_in_background: bool = False,
    ) -> None:
        _engine.install()
        device = torch.device(device)
        super().__init__(
            peak_bytes=peak_bytes,
            max_overhead=max_overhead,
            fraction=fraction,
            reserve_bytes=reserve_bytes,
            device=device,
            stores=list(stores),
            plans_in_background=plans_in_background,
        )
        self.device = _with_index(device)

    def step(self) -> AbstractContextManager[None]:
        """Returns a context manager for the forward of a step and its loss."""
        return _Step(self)

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes what is in memory over a step, and when, into a file.

        The step is the last known one, under the plan that the next one like it follows: its bytes
        by what they are for, its peak with the operator and the values there, and from when to when
        each value is in memory. After steps that were observed in debug mode
        (set_checkpoint_debug_enabled), values have the stacks of the code that made them.

        Args:
            path: a name that ends in .html or .svg, for a picture (an .html file needs no network),
                or in .report, for the data that tools/plan draws.

        Raises:
            ValueError: If the name ends otherwise, or no step is known yet.
            ImportError: If a picture is asked for and altair or vl-convert-python is not installed:
                pip install 'reprise-torch[report]'.
        """
        form = os.path.splitext(path)[1]
        if form not in (".html", ".svg", ".report"):
            raise ValueError(
                f"a report is a picture, .html or .svg, or data, .report; not {os.fspath(path)!r}"
            )
        data = self._picture_data()
        if data is None:
            raise ValueError("no step is known yet")
        if form == ".report":
            self._write_report_data(os.fspath(path))
        else:
            _report.write_picture(data, path)

    def save_plans(self, path: str | os.PathLike[str]) -> None:
        """Writes what is known of steps into a file, for load_plans() in a restarted job.

        That is their operators, traces and plans, and what was measured of them and of the stores.
        A step that is under way is not in it.

        Args:
            path: of a file, which is replaced as a whole or stays as it is.

        Raises:
            RuntimeError: If no step is known yet, or the file cannot be written.
        """
        self._save_plans(os.fspath(path))

    def load_plans(self, path: str | os.PathLike[str]) -> None:
        """Replaces what is known of steps by what save_plans() has written.

        A step in the file follows its plan from its first run on. The plan is made anew, without
        observing a step, if this budget has much more room for it, or too little, or another
        max_overhead; or if it uses stores and this budget has not as many. Steps with operators
        that are not registered in this process are left out: import their libraries before.

        Args:
            path: of a file that save_plans() has written.

        Raises:
            ValueError: If the file is not of this format and version, is not valid, or is for
                another kind of device. The message has the number of the line.
            RuntimeError: If the file cannot be read.
        """
        self._load_plans(os.fspath(path))
