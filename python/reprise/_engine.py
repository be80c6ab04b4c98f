# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Shows the backwards that Python runs to the engine of regions and budgets.

Tensor.backward() calls Python's autograd engine itself, past LibTorch's default engine, where the
library observes those of C++.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reprise._errors import BudgetExceededError
from reprise._native import _C


def raise_budget_error(error: BaseException | None) -> None:
    """Raises the error of a budget, which torch's bindings have made one of torch's, as ours."""
    if type(error) is torch.OutOfMemoryError and str(error).startswith("[memory_budget]"):
        raise BudgetExceededError(str(error)) from error


# Called before each backward that Python runs, with its roots, whether it makes a graph of its
# gradients, and whether it adds to the `.grad` of leaves.
before_backward: list[Callable[[Any, bool, bool], None]] = []


class ObservedEngine:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def run_backward(
        self, tensors: Any, *args: Any, accumulate_grad: bool = False, **kwargs: Any
    ) -> Any:
        for observe in before_backward:
            observe(tensors, bool(args[2]), accumulate_grad)
        with _C.ObservedBackward(tensors, accumulate_grad):
            try:
                return self._engine.run_backward(
                    tensors, *args, accumulate_grad=accumulate_grad, **kwargs
                )
            except torch.OutOfMemoryError as error:
                raise_budget_error(error)
                raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def install() -> None:
    variable: Any = torch.autograd.Variable
    if not isinstance(variable._execution_engine, ObservedEngine):
        variable._execution_engine = ObservedEngine(variable._execution_engine)
