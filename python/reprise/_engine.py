# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Shows the backwards that Python runs to the engine of regions and budgets.

Tensor.backward() calls Python's autograd engine itself, past LibTorch's default engine, where the
library observes those of C++.
"""

import torch

from reprise._native import _C


class ObservedEngine:
    def __init__(self, engine):
        self._engine = engine

    def run_backward(self, tensors, *args, accumulate_grad=False, **kwargs):
        with _C.ObservedBackward(tensors, accumulate_grad):
            return self._engine.run_backward(
                tensors, *args, accumulate_grad=accumulate_grad, **kwargs
            )

    def __getattr__(self, name):
        return getattr(self._engine, name)


def install():
    variable = torch.autograd.Variable
    if not isinstance(variable._execution_engine, ObservedEngine):
        variable._execution_engine = ObservedEngine(variable._execution_engine)
