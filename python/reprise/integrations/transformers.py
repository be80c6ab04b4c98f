# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A memory budget for the training of transformers' Trainer, and of its subclasses.

>>> trainer = transformers.Trainer(model=model, args=args, train_dataset=data)
>>> reprise.integrations.transformers.apply(trainer, budget=0.6)
>>> trainer.train()
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch import nn

from reprise.integrations import _applied
from reprise.integrations._applied import AppliedBudget, Budget

if TYPE_CHECKING:
    import transformers

__all__ = ["apply"]


def _callback(applied: AppliedBudget, adds_to_logs: bool) -> Any:
    from transformers import TrainerCallback

    class BudgetCallback(TrainerCallback):
        """Has the budget watch the model while it is trained, and adds to the lines of the log."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            applied._watch([objects["model"]])

        def on_train_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            applied._unwatch()

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **objects: Any
        ) -> None:
            if adds_to_logs and logs is not None and "loss" in logs:
                values = applied.values()
                logs.update(values)
                state.log_history[-1].update(values)

    return BudgetCallback()


def apply(
    trainer: transformers.Trainer | nn.Module,
    *,
    budget: Budget = None,
    max_overhead: float | None = None,
    logs: bool = True,
) -> AppliedBudget:
    """Gives a memory budget to each training step of a Trainer, or of a model without one.

    Args:
        trainer: a transformers.Trainer, before train(); or a model: see reprise.integrations.apply().
        budget: as there.
        max_overhead: as there.
        logs: whether the lines of the training log, and log_history, have AppliedBudget.values().

    Returns:
        What has been applied; remove() also removes the callback.

    Raises:
        ValueError: As reprise.integrations.apply().
        TypeError: If it is neither a trainer nor a model.
    """
    if isinstance(trainer, nn.Module):
        return _applied.apply(trainer, budget=budget, max_overhead=max_overhead)
    handler = getattr(trainer, "callback_handler", None)
    if handler is None:
        raise TypeError(f"a {type(trainer).__name__} is neither a Trainer nor a module")
    applied = AppliedBudget(budget, max_overhead)
    callback = _callback(applied, logs)
    handler.callbacks.insert(0, callback)  # before those that write the log
    applied._undo = functools.partial(trainer.remove_callback, callback)
    return applied
