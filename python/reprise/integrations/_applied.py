# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The budget of the steps of a model."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch import nn

from reprise._budget import MemoryBudget
from reprise._quantities import parse_budget
from reprise._run import NO_LIMIT, BudgetOfProgram
from reprise._steps import Steps

if TYPE_CHECKING:
    from typing_extensions import Self

    from reprise import BudgetedStep

__all__ = ["AppliedBudget", "Budget", "apply"]

Budget = int | float | str | MemoryBudget | None

_logger = logging.getLogger("reprise")
# The models that have a budget, and which one.
_served: weakref.WeakKeyDictionary[nn.Module, AppliedBudget] = weakref.WeakKeyDictionary()


def _parsed(budget: Budget, max_overhead: float | None) -> int | float | MemoryBudget | None:
    if budget is not None and max_overhead is not None:
        raise ValueError("give a budget or max_overhead, not both")
    if isinstance(budget, str):
        return parse_budget(budget)
    if isinstance(budget, float) and not 0 < budget <= 1:
        raise ValueError(f"a float is a part of the peak of a plain step, up to 1; got {budget}")
    return budget


class AppliedBudget:
    """A budget that has been applied to a model or a trainer; see `apply`.

    A context manager, which removes the budget at its end. Thread-safe.
    """

    def __init__(self, budget: Budget = None, max_overhead: float | None = None):
        self._program = BudgetOfProgram(
            _parsed(budget, max_overhead), max_overhead, _logger.warning
        )
        self._models: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._belongs: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
        self._serves_all = False
        self._steps = Steps(self._begin)
        self._is_watching = False
        self._undo: Callable[[], object] | None = None  # what a framework's trainer has got

    def _begin(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any] | None:
        if not self._serves_all:
            belongs = self._belongs.get(module)
            if belongs is None:
                belongs = self._belongs[module] = self._is_of_models(module)
            if not belongs:
                return None
        return self._program.begin(module, args, kwargs)

    def _is_of_models(self, module: nn.Module) -> bool:
        """Returns whether the module is a part of a model, or a wrapper around one."""
        return any(each in self._models for each in module.modules()) or any(
            module is each for model in self._models for each in model.modules()
        )

    def _watch(self, models: Iterable[nn.Module] | None) -> None:
        """Gives the budget to the steps of these models from now on; None: of all modules."""
        self._unwatch()
        self._serves_all = models is None
        for model in models or ():
            before = _served.get(model)
            if before is not None:
                before._leave(model)
            self._models.add(model)
            _served[model] = self
        self._steps.install()
        self._is_watching = True

    def _leave(self, model: nn.Module) -> None:
        """Leaves a model to another budget."""
        self._models.discard(model)
        self._belongs.clear()
        if not self._models:
            self._unwatch()

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._steps.remove()
            for model in list(self._models):
                _served.pop(model, None)
            self._models.clear()
            self._belongs.clear()

    @property
    def steps(self) -> int:
        """The number of steps that have begun."""
        return self._program.steps

    def last_step(self) -> BudgetedStep | None:
        """Returns the last step whose backward has ended; None before the first one."""
        budget = self._program.budget
        return budget.last_step() if budget is not None else None

    def values(self) -> dict[str, float]:
        """Returns numbers for a log, of the last step.

        Returns:
            `reprise_peak_bytes`, its peak; `reprise_limit_bytes`, the budget, unless the step was a
            plain one; `reprise_overhead`, by how much longer than a plain one its plan takes, as
            a part, once there is a plan. Nothing before the first step has ended.
        """
        last = self.last_step()
        if last is None:
            return {}
        values = {"reprise_peak_bytes": float(last.peak_bytes)}
        if last.limit_bytes is not None and last.limit_bytes < NO_LIMIT:
            values["reprise_limit_bytes"] = float(last.limit_bytes)
        if last.is_planned and last.plain_seconds > 0:
            values["reprise_overhead"] = last.predicted_seconds / last.plain_seconds - 1
        return values

    def summary(self) -> str:
        """Returns a line about the steps and the last peak."""
        return self._program.summary()

    def report(self) -> str:
        """Returns MemoryBudget.report() of the last step."""
        return self._program.report()

    def remove(self) -> None:
        """Ends the budget: later steps are plain ones. A second call does nothing."""
        self._unwatch()
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


def apply(
    model: nn.Module | Iterable[nn.Module] | None = None,
    *,
    budget: Budget = None,
    max_overhead: float | None = None,
) -> AppliedBudget:
    """Gives a memory budget to each step of a model, in a loop that stays as it is.

    >>> reprise.integrations.apply(model, budget="6GiB")

    A step begins at the outermost call of one of the model's modules, or of a module around it such as
    DistributedDataParallel, with grad mode on, and ends where backward begins. A step that cannot
    have a budget runs as it is, and the logger "reprise" says why, once. A model that has a budget
    gets this one instead.

    Args:
        model: the module that is trained, before or after a framework wraps it; several of them, as
            of a pipeline; None: the step of any module of the process.
        budget: bytes, as a number or as a text such as "6GiB"; a float up to 1: a part of the peak of
            a plain step, which the first step of each kind is then (a generator's, its critic's);
            a MemoryBudget. None: all that the device has to give, unless there is an overhead.
        max_overhead: instead, the least memory for at most so much more time: 0.2, a fifth.

    Returns:
        What has been applied, with reports and remove().

    Raises:
        ValueError: If the budget cannot be read, or is given both ways.
        TypeError: If it is no module.
    """
    if isinstance(model, nn.Module):
        model = [model]
    elif model is not None:
        model = list(model) if isinstance(model, Iterable) else [model]
        for each in model:
            if not isinstance(each, nn.Module):
                raise TypeError(
                    f"a {type(each).__name__} is no module; the trainers of frameworks have an "
                    "apply() in reprise.integrations.transformers, .lightning and .accelerate"
                )
    applied = AppliedBudget(budget, max_overhead)
    applied._watch(model)
    return applied
