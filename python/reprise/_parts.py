# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Tensors of classes that consist of other tensors: taken apart, and made again.

A class says how by its `__tensor_flatten__` and `__tensor_unflatten__`, as for torch.compile.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["put_together", "take_apart"]

# By class: whether put_together() gives that class.
_makes_itself: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def take_apart(tensor: Any) -> tuple[list[Any], Any]:
    """Returns the innermost tensors of `tensor`, and what put_together() needs besides them.

    Raises:
        TypeError: a class inherits a method that makes a tensor of another class.
    """
    leaves: list[Any] = []
    description = _describe(tensor, leaves)
    cls = type(tensor)
    if cls not in _makes_itself:
        _makes_itself[cls] = type(put_together(description, leaves)) is cls
    if not _makes_itself[cls]:
        raise TypeError(f"{cls}.__tensor_unflatten__ makes a tensor of another class")
    return leaves, description


def _describe(value: Any, leaves: list[Any]) -> Any:
    if not is_traceable_wrapper_subclass(value):
        leaves.append(value)
        return len(leaves) - 1
    names, context = value.__tensor_flatten__()
    parts = [(name, _describe(getattr(value, name), leaves)) for name in names]
    return type(value), parts, context, value.size(), value.stride()


def put_together(description: Any, leaves: list[Any]) -> Any:
    """Returns a tensor as described by take_apart(), with these innermost tensors."""
    if isinstance(description, int):
        return leaves[description]
    cls, parts, context, size, stride = description
    inner = {name: put_together(part, leaves) for name, part in parts}
    return cls.__tensor_unflatten__(inner, context, size, stride)
