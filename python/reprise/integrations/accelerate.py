# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A memory budget for a loop that uses accelerate.

>>> model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
>>> reprise.integrations.accelerate.apply(accelerator, model, budget=0.6)
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch import nn

from reprise.integrations._applied import AppliedBudget, Budget

if TYPE_CHECKING:
    import accelerate  # type: ignore[import-untyped]

__all__ = ["apply"]


def _log_too(applied: AppliedBudget, accelerator: Any) -> None:
    """Has the accelerator log the values of the budget beside others."""
    log = accelerator.log

    @functools.wraps(log)
    def log_too(values: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        return log({**applied.values(), **values}, *args, **kwargs)

    accelerator.log = log_too
    applied._undo = functools.partial(delattr, accelerator, "log")


def apply(
    accelerator: accelerate.Accelerator,
    model: nn.Module,
    *,
    budget: Budget = None,
    max_overhead: float | None = None,
    logs: bool = True,
) -> AppliedBudget:
    """Gives a memory budget to each step of a model in a loop with an Accelerator.

    Args:
        accelerator: of the loop.
        model: before or after prepare().
        budget: as of reprise.integrations.apply().
        max_overhead: as there.
        logs: whether accelerator.log() adds AppliedBudget.values() to its values.

    Returns:
        What has been applied; remove() also removes the values.

    Raises:
        ValueError: As reprise.integrations.apply().
    """
    applied = AppliedBudget(budget, max_overhead)
    applied._watch([model])
    if logs:
        _log_too(applied, accelerator)
    return applied
