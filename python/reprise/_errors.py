# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The exceptions of regions and budgets, below those of torch."""

import traceback

import torch
from torch.utils.checkpoint import CheckpointError

__all__ = [
    "BudgetExceededError",
    "CheckpointError",
    "DeterminismError",
    "MutationError",
    "StopRecomputation",
]


class DeterminismError(CheckpointError):
    """The recomputation differs from forward; the message names the region and each tensor."""


class MutationError(CheckpointError):
    """A tensor that a region reads was modified in place between forward and recomputation."""


class BudgetExceededError(torch.OutOfMemoryError):
    """A step does not fit into its MemoryBudget, and nothing in use could be computed again."""


class StopRecomputation(BaseException):
    """Ends a recomputation that has all it needs, from inside the region's code.

    Not an Exception, so that `except Exception` does not take it for an error; `finally` and
    `__exit__` run. If code swallows it, it is raised again at the next tensor that autograd saves.
    """


def format_stack():
    """Returns the lines of this thread's stack, for the operators in messages of debug mode."""
    return traceback.format_stack()[:-1]


for _error in (BudgetExceededError, DeterminismError, MutationError, StopRecomputation):
    _error.__module__ = "reprise"
