# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The budget of a program that knows nothing of this package."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from reprise._budget import MemoryBudget
from reprise._native import _C
from reprise._quantities import bytes_text

__all__ = ["NO_LIMIT", "BudgetOfProgram", "device_of", "enter_step", "warn"]

NO_LIMIT = 1 << 60  # bytes


def warn(text: str) -> None:
    print(f"reprise: {text}", file=sys.stderr)


def device_of(module: nn.Module) -> torch.device:
    """Returns where the first parameter or buffer is; the CPU without any."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device("cpu")


def used_bytes(device: torch.device) -> int:
    """Returns the bytes of tensors on the device."""
    name = str(device)
    for memory in _C.memory_report().devices:
        if memory.device == name or memory.device == f"{name}:0":
            return memory.current_bytes
    return 0


def enter_step(budget: MemoryBudget) -> AbstractContextManager[Any]:
    step = budget.step()
    step.__enter__()
    return step


class BudgetOfProgram:
    """Gives a budget to each step of a program.

    Args:
        budget: bytes; a float: a part of the peak of a plain step, which the first one is then.
            None: all that the device has to give, unless there is an overhead.
        max_overhead: instead, the least memory for at most so much more time.
    """

    def __init__(self, budget: int | float | None, max_overhead: float | None):
        self._part = budget if isinstance(budget, float) else None
        self._bytes = budget if isinstance(budget, int) else None
        self._max_overhead = max_overhead
        self._lock = threading.Lock()
        self._device: torch.device | None = None
        self._plain: MemoryBudget | None = None
        self._used_before = 0  # the plain step
        self._budget: MemoryBudget | None = None
        self._unserved: dict[str, int] = {}
        self.steps = 0

    def begin(self, module: nn.Module) -> AbstractContextManager[Any] | None:
        """Enters a step; see Steps."""
        device = device_of(module)
        with self._lock:
            if self._device is None:
                self._device = device
            if device != self._device:
                self._leave_plain(
                    f"its module is on {device}, and the budget is that of {self._device}"
                )
                return None
            try:
                step = enter_step(self._budget_now(device))
            except (RuntimeError, ValueError) as error:
                if isinstance(error, _NoPlainStep):
                    raise
                self._leave_plain(str(error).splitlines()[0])
                return None
            self.steps += 1
        return step

    def _leave_plain(self, reason: str) -> None:
        if reason not in self._unserved:
            warn(f"a step runs as it is: {reason}")
        self._unserved[reason] = self._unserved.get(reason, 0) + 1

    def _budget_now(self, device: torch.device) -> MemoryBudget:
        if self._budget is None and self._part is None:
            self._budget = MemoryBudget(
                peak_bytes=self._bytes, max_overhead=self._max_overhead, device=device
            )
        if self._budget is not None:
            return self._budget
        if self._plain is None:
            self._used_before = used_bytes(device)
            self._plain = MemoryBudget(peak_bytes=NO_LIMIT, device=device)
        elif (last := self._plain.last_step()) is not None:
            self._budget = self._part_of(self._plain, last, device)
            self._plain = None
            return self._budget
        return self._plain

    def _part_of(self, plain: MemoryBudget, last: Any, device: torch.device) -> MemoryBudget:
        """Returns a budget that knows the plain step."""
        assert self._part is not None
        if last.evicted_bytes > 0:
            raise _NoPlainStep(
                "[reprise run] a plain step does not fit into the memory of the device, so that "
                f"there is nothing that {self._part} is a part of; give the budget in bytes, such "
                "as --budget 6GiB"
            )
        # What optimizers keep comes with the first step.
        plain_peak = last.peak_bytes + max(0, used_bytes(device) - self._used_before)
        budget = MemoryBudget(peak_bytes=round(self._part * plain_peak), device=device)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plans")
            plain.save_plans(path)
            budget.load_plans(path)
        return budget

    def summary(self) -> str:
        """Returns a line about what has been done."""
        budget = self._budget or self._plain
        last = budget.last_step() if budget is not None else None
        if self.steps == 0:
            return "no step was found: no module was called with grad mode on"
        if last is None:
            return f"{self.steps} steps, none of which has come to its end within the budget"
        limit = "a plain step" if budget is self._plain else None
        if limit is None and last.limit_bytes is not None and last.limit_bytes < NO_LIMIT:
            limit = f"a budget of {bytes_text(last.limit_bytes)}"
        text = f"{self.steps} steps, the last one of {bytes_text(last.peak_bytes)} at its peak"
        return f"{text}, {limit}" if limit else text

    def report(self) -> str:
        """Returns what is known of the last step."""
        budget = self._budget or self._plain
        return budget.report() if budget is not None else self.summary()


class _NoPlainStep(RuntimeError):
    pass
