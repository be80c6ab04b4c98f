# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A memory budget around a training loop that stays as it is.

>>> import reprise.integrations
>>> reprise.integrations.apply(model, budget=0.6)  # a loop of one's own, torchtitan's, timm's ...

The loops of frameworks have a module each, with a line for their loggers:

>>> reprise.integrations.transformers.apply(trainer, budget=0.6)
>>> reprise.integrations.lightning.apply(trainer, budget=0.6)
>>> reprise.integrations.accelerate.apply(accelerator, model, budget=0.6)

Each step of the model has the budget, from the outermost call of one of its modules with grad mode on
to the end of backward, as with `python -m reprise run`; gradients have the bits of a run without.
Importing this module imports no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from reprise.integrations._applied import AppliedBudget, apply

if TYPE_CHECKING:
    from reprise.integrations import accelerate, lightning, transformers

__all__ = ["AppliedBudget", "accelerate", "apply", "lightning", "transformers"]


def __getattr__(name: str) -> Any:
    if name in ("accelerate", "lightning", "transformers"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
