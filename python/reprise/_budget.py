# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""MemoryBudget: a limit on the memory of training steps."""

import torch

from reprise import _engine
from reprise._native import _C

__all__ = ["MemoryBudget"]


class _Step(_C.BudgetScope):
    def __exit__(self, *error):
        super().__exit__(*error)
        _engine.raise_budget_error(error[1])


class MemoryBudget(_C.MemoryBudget):
    """Limits the memory of training steps, and keeps them as fast as can be within it.

    >>> budget = reprise.MemoryBudget(peak_bytes=2 << 30)  # lives as long as training
    >>> for batch, target in loader:
    ...     with budget.step():
    ...         loss = torch.nn.functional.cross_entropy(model(batch), target)
    ...     loss.backward()
    ...     optimizer.step()
    >>> print(budget.report())

    peak_bytes: the most bytes of the device's tensors in use at any moment of forward and backward,
        parameters and gradients included.
    max_overhead: instead: the least memory for at most so much more time (0.1: a tenth).
    device: whose memory it is, a torch.device or its name; on the CPU the budget is kept before
        each allocation, on an accelerator between operators.
    stores: where plans may put tensors, if that takes less time than to compute them again.

    Raises ValueError for contradictory options. A step that does not fit raises
    BudgetExceededError, a torch.OutOfMemoryError, in forward or in backward.
    """

    def __init__(self, **options):
        _engine.install()
        if "device" in options:
            options["device"] = torch.device(options["device"])
        super().__init__(**options)

    def step(self):
        """Returns a context manager for the forward of a step and its loss."""
        return _Step(self)
