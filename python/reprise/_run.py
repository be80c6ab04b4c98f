# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The budget of a program that knows nothing of this package."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

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


# A module, and whether gradients go back through its arguments.
_Kind = tuple[int, bool]


def _kind_of(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Kind:
    leaves = _pytree.tree_leaves((args, kwargs))
    return id(module), any(isinstance(t, torch.Tensor) and t.requires_grad for t in leaves)


class _PlainSteps:
    """The first step of each kind, without a limit: what a part of them is.

    A critic on a generator's results is another kind of step than the critic on data.
    """

    _MOST = 16  # kinds: a program that makes a module for each step has a budget in the end

    def __init__(self, device: torch.device):
        self.budget = MemoryBudget(peak_bytes=NO_LIMIT, device=device)
        self._device = device
        self._kinds: set[_Kind] = set()
        self._used_before = used_bytes(device)  # all of them
        self._peak = 0

    def is_next(self, kind: _Kind) -> bool:
        """Returns whether the step that begins is one of them, and notes what the last one needed.

        Raises:
            _NoPlainStep: If the last one did not fit.
        """
        last = self.budget.last_step()
        if last is not None:
            if last.evicted_bytes > 0:
                raise _NoPlainStep(
                    "[reprise run] a plain step does not fit into the memory of the device, so that "
                    "there is nothing that the budget is a part of; give the budget in bytes, such "
                    "as --budget 6GiB"
                )
            self._peak = max(self._peak, last.peak_bytes)
            if kind in self._kinds or len(self._kinds) == self._MOST:
                return False
        self._kinds.add(kind)
        return True

    def budget_of(self, part: float) -> MemoryBudget:
        """Returns a budget of a part of the largest one, which knows all of them."""
        # What optimizers keep comes with the first steps.
        kept = max(0, used_bytes(self._device) - self._used_before)
        limit = round(part * (self._peak + kept))
        budget = MemoryBudget(peak_bytes=limit, device=self._device)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plans")
            self.budget.save_plans(path)
            budget.load_plans(path)
        return budget


class BudgetOfProgram:
    """Gives a budget to each step of a program.

    Args:
        budget: bytes; a float: a part of the peak of a plain step, which the first one of each kind
            is then; or a budget. None: all that the device has to give, unless there is an overhead.
        max_overhead: instead, the least memory for at most so much more time.
        say: is told which steps have no budget, once for each reason.
    """

    def __init__(
        self,
        budget: int | float | MemoryBudget | None,
        max_overhead: float | None,
        say: Callable[[str], None] = warn,
    ):
        self._part = budget if isinstance(budget, float) else None
        self._bytes = budget if isinstance(budget, int) else None
        self._max_overhead = max_overhead
        self._say = say
        self._lock = threading.Lock()
        self._budget = budget if isinstance(budget, MemoryBudget) else None
        self._device = self._budget.device if self._budget is not None else None
        self._plain: _PlainSteps | None = None
        self._unserved: dict[str, int] = {}
        self.steps = 0

    def begin(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any] | None:
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
                step = enter_step(self._budget_now(_kind_of(module, args, kwargs), device))
            except (RuntimeError, ValueError) as error:
                if isinstance(error, _NoPlainStep):
                    raise
                self._leave_plain(str(error).splitlines()[0])
                return None
            self.steps += 1
        return step

    def _leave_plain(self, reason: str) -> None:
        if reason not in self._unserved:
            self._say(f"a step runs as it is: {reason}")
        self._unserved[reason] = self._unserved.get(reason, 0) + 1

    def _budget_now(self, kind: _Kind, device: torch.device) -> MemoryBudget:
        if self._budget is not None:
            return self._budget
        if self._part is None:
            self._budget = MemoryBudget(
                peak_bytes=self._bytes, max_overhead=self._max_overhead, device=device
            )
            return self._budget
        if self._plain is None:
            self._plain = _PlainSteps(device)
        if self._plain.is_next(kind):
            return self._plain.budget
        self._budget = self._plain.budget_of(self._part)
        self._plain = None
        return self._budget

    @property
    def is_plain(self) -> bool:
        """Whether the last step was one of those that the budget is a part of."""
        return self._plain is not None

    @property
    def budget(self) -> MemoryBudget | None:
        """That of the last step; None before the first one."""
        return self._budget or (self._plain.budget if self._plain is not None else None)

    def summary(self) -> str:
        """Returns a line about what has been done."""
        last = self.budget.last_step() if self.budget is not None else None
        if self.steps == 0:
            return "no step was found: no module was called with grad mode on"
        if last is None:
            return f"{self.steps} steps, none of which has come to its end within the budget"
        limit = "a plain step" if self.is_plain else None
        if limit is None and last.limit_bytes is not None and last.limit_bytes < NO_LIMIT:
            limit = f"a budget of {bytes_text(last.limit_bytes)}"
        text = f"{self.steps} steps, the last one of {bytes_text(last.peak_bytes)} at its peak"
        return f"{text}, {limit}" if limit else text

    def report(self) -> str:
        """Returns what is known of the last step."""
        return self.budget.report() if self.budget is not None else self.summary()


class _NoPlainStep(RuntimeError):
    pass
