# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""keep(): a part of a region's code that runs once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from reprise._native import _C

__all__ = ["keep"]


def _tensors_in(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def keep(fn: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any) -> Any:
    """Runs fn(*args, **kwargs) once: recomputations receive its results without a call of it.

    For kernels that are slow to repeat, or that must not run twice: custom Functions, kernels of
    other libraries, a block inside of a region. In regions, scopes and memory budgets; outside of
    them it calls fn and does nothing else. What autograd saves inside fn is retained until backward,
    as without a region. Policies are not asked for its operators. Random numbers drawn after it are
    those of forward.

    >>> def block(x):
    ...     return reprise.keep(attention, q(x), k(x), v(x)).relu() + x
    >>> y = reprise.checkpoint(block, x)

    Args:
        fn: must not write to its arguments in place.
        name: for errors and saved_tensors(); the name of fn by default.

    Returns:
        What fn returns: tensors in containers that torch.utils._pytree knows, and other objects,
        which recomputations share. A result that is an argument is the argument there.

    Raises:
        MutationError: If fn writes to an argument. In backward, if a result has been written in
            place since.
        CheckpointError: If fn draws from a named generator state. In backward, if a backward inside
            of the region's code goes through the results.
        DeterminismError: In backward, if a recomputation makes other calls.
    """
    if torch.compiler.is_compiling():
        return fn(*args, **kwargs)

    def run() -> tuple[list[torch.Tensor], Any]:
        leaves, structure = _pytree.tree_flatten(fn(*args, **kwargs))
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        tensors = [leaf for leaf, is_one in zip(leaves, is_tensor) if is_one]
        others = [None if is_one else leaf for leaf, is_one in zip(leaves, is_tensor)]
        return tensors, (structure, is_tensor, others)

    unit = name or str(getattr(fn, "__qualname__", type(fn).__name__))
    tensors, (structure, is_tensor, others) = _C.keep(unit, _tensors_in((args, kwargs)), run)
    next_tensor = iter(tensors)
    leaves = [next(next_tensor) if is_one else other for is_one, other in zip(is_tensor, others)]
    return _pytree.tree_unflatten(leaves, structure)
