# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The exceptions of regions and budgets, below those of torch."""

from __future__ import annotations

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


def note_recomputation(error: BaseException, cause: str) -> None:
    """Adds to an error of a region's own code that it has come up in the recomputation alone."""
    is_of_code = isinstance(error, Exception) and not isinstance(error, CheckpointError)
    if is_of_code and not hasattr(error, "__notes__") and hasattr(error, "add_note"):
        error.add_note(f"Raised in a region's recomputation; forward did not raise it. {cause}")


def format_stack() -> list[str]:
    """Returns the lines of this thread's stack, for the operators in messages of debug mode."""
    return traceback.format_stack()[:-1]


for _error in (BudgetExceededError, DeterminismError, MutationError, StopRecomputation):
    _error.__module__ = "reprise"
