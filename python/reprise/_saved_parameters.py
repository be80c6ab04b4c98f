# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Parameters that a custom Function has saved are the parameters in its backward."""

from __future__ import annotations

from typing import Any

from torch.autograd import function

from reprise._native import _C

__all__ = ["install"]


def install() -> None:
    """Has ctx.saved_tensors return leaves themselves.

    Under saved-tensor hooks LibTorch makes a new tensor of each unpacked one, without the attributes
    of the parameter, such as main_grad.
    """
    context: Any = function.BackwardCFunction
    unpacked = context.saved_tensors

    def saved_tensors(self: Any) -> tuple[Any, ...]:
        return _C.with_leaves(unpacked.__get__(self))

    context.saved_tensors = property(saved_tensors, doc=unpacked.__doc__)
