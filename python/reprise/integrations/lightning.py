# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A memory budget for the training of Lightning's Trainer, of either package.

>>> trainer = lightning.Trainer(max_epochs=3)
>>> reprise.integrations.lightning.apply(trainer, budget=0.6)
>>> trainer.fit(module, loader)
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from reprise.integrations._applied import AppliedBudget, Budget

__all__ = ["apply"]


def _callback(applied: AppliedBudget, package: str, logs: bool, in_progress_bar: bool) -> Any:
    base = importlib.import_module(package).Callback

    class BudgetCallback(base):  # type: ignore[misc,valid-type]
        """Has the budget watch the module while it is trained, and logs its values."""

        def on_train_start(self, trainer: Any, module: Any) -> None:
            applied._watch([module])

        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if logs:
                values = applied.values()
                module.log_dict(values, prog_bar=in_progress_bar, on_step=True, on_epoch=False)

        def on_train_end(self, trainer: Any, module: Any) -> None:
            applied._unwatch()

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            applied._unwatch()

    return BudgetCallback()


def apply(
    trainer: Any,
    *,
    budget: Budget = None,
    max_overhead: float | None = None,
    logs: bool = True,
    in_progress_bar: bool = False,
) -> AppliedBudget:
    """Gives a memory budget to each step of fit(), with automatic or manual optimisation.

    Args:
        trainer: a Trainer of `lightning` or of `pytorch_lightning`, before fit().
        budget: as of reprise.integrations.apply().
        max_overhead: as there.
        logs: whether each batch logs AppliedBudget.values().
        in_progress_bar: whether the progress bar shows them too.

    Returns:
        What has been applied; remove() also removes the callback.

    Raises:
        ValueError: As reprise.integrations.apply().
        TypeError: If it is no trainer of Lightning.
    """
    package = next(
        (
            name
            for each in type(trainer).__mro__
            for name in ("lightning.pytorch", "pytorch_lightning")
            if each.__module__.startswith(name)
        ),
        None,
    )
    if package is None:
        raise TypeError(f"a {type(trainer).__name__} is no Trainer of Lightning")
    applied = AppliedBudget(budget, max_overhead)
    callback = _callback(applied, package, logs, in_progress_bar)
    trainer.callbacks.insert(0, callback)
    applied._undo = functools.partial(trainer.callbacks.remove, callback)
    return applied
