# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Ready policies: which results of operators a region saves. None of them asks Python anything.

>>> policy = reprise.policies.first_match(
...     reprise.policies.offload(reprise.policies.save_attention()),
...     reprise.policies.every_nth_matmul(2))
>>> with reprise.CheckpointScope(policy=policy):
...     h = block(h)

Wherever a policy is taken, so is an operator to save, a list of them, or a function
`policy(context, op, *args, **kwargs)` as torch.utils.checkpoint takes it. Regions see composite
operators as their parts: linear as aten::addmm or aten::mm, conv2d as aten::convolution. Counters
start again in each region, so a policy may serve any number of regions and threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from reprise._native import _C

if TYPE_CHECKING:
    from reprise.stores import ActivationStore

__all__ = [
    "AnyPolicy",
    "BudgetPolicy",
    "Policy",
    "every_nth_matmul",
    "first_match",
    "for_region",
    "keep_in",
    "offload",
    "override_with",
    "save_attention",
    "save_compute_intensive",
    "save_everything",
    "save_matmuls",
    "save_named",
    "save_nothing",
    "save_operators",
    "save_tagged",
    "save_where",
    "with_state",
]

Policy = _C.policies.Policy
Policy.__module__ = __name__


class BudgetPolicy(_C.policies.BudgetPolicy):
    """Saves, within a budget of bytes for each run of a region, the results that take longest to compute.

    >>> policy = reprise.policies.BudgetPolicy(saved_fraction=0.3)  # lives as long as training
    >>> for i, block in enumerate(blocks):
    ...     options = reprise.CheckpointOptions(name=f"block {i}", policy=policy)
    ...     h = reprise.checkpoint(block, h, options=options)
    >>> print(policy.explain())

    It observes two runs of each region, waiting for the device after each operator, and follows a
    plan from the second on. For a budget of a whole step use MemoryBudget.

    `known_runs()` returns a BudgetedRun for each kind of run, `explain()` the same as text.

    Args:
        saved_bytes: the budget of a run.
        saved_fraction: instead: of the bytes of all results that are worth saving, from 0 to 1.

    Raises:
        ValueError: Unless exactly one option is given, and in its range.
    """


AnyPolicy = Policy | str | Sequence[Any] | Callable[..., Any]


def save_everything() -> Policy:
    """Saves all results: a region keeps as much as without checkpointing, and computes nothing."""
    return _C.policies.save_everything()


def save_nothing() -> Policy:
    """Saves no result, as a region without a policy, except for values marked by must_save()."""
    return _C.policies.save_nothing()


def save_operators(*operators: Any) -> Policy:
    """Saves results of these operators: `torch.ops.aten.mm.default`, or names, "aten::mm".

    A name without an overload means the default one, or the only one. `Policy.unmatched()` lists
    the names that have matched no operator yet.

    Raises:
        ValueError: For an unknown name, with the closest ones; or one of several overloads.
    """
    return _C.policies.save_operators(*operators)


def save_matmuls() -> Policy:
    """Saves the results of aten::mm, addmm, bmm and baddbmm, in any overload."""
    return _C.policies.save_matmuls()


def save_attention() -> Policy:
    """Saves the results of fused attention: torch's variants, and operators with "attn" in the name.

    The math variant appears as aten::bmm and aten::_softmax, and is not saved.
    """
    return _C.policies.save_attention()


def save_compute_intensive() -> Policy:
    """Saves the results of matrix multiplications, fused attention and convolutions."""
    return _C.policies.save_compute_intensive()


def every_nth_matmul(n: int) -> Policy:
    """Saves the results of the first, the (n+1)th, the (2n+1)th ... matrix multiplication.

    Raises:
        ValueError: Unless `n` is positive.
    """
    return _C.policies.every_nth_matmul(n)


def save_where(condition: Callable[[torch.Tensor], bool]) -> Policy:
    """Saves the results of operators with at least one for which `condition(tensor)` is true.

    It should depend on the tensor's shape, dtype or device, not on its values. This policy asks
    Python once for each result.
    """
    if not callable(condition):
        raise TypeError(f"condition should be a function, not {condition!r}")
    return _C.policies.save_where(condition)


def save_tagged(tag: torch.Tag) -> Policy:
    """Saves the results of operators with this tag, such as `torch.Tag.needs_fixed_stride_order`."""
    if not isinstance(tag, torch.Tag):
        raise TypeError(f"tag should be a torch.Tag, not {tag!r}")
    return _C.policies.save_tagged(int(tag))  # type: ignore[call-overload]


def save_named(names: str | Sequence[str]) -> Policy:
    """Saves values named by checkpoint_name(), and results of operators inside a `reprise.name_scope`.

    A scope matches if its path, outer names first and joined by "/", ends with the name at a "/":
    "attn", "attn/q_proj". With the name of the scope around a part of a model, that part is kept as
    one unit, custom autograd Functions included, and none of it runs again.

    Args:
        names: one name, or several.

    Raises:
        ValueError: For a name that is empty or has an empty part between slashes.
    """
    return _C.policies.save_named([names] if isinstance(names, str) else list(names))


def offload(inner: AnyPolicy) -> Policy:
    """Saves in host memory that which `inner` saves."""
    return _C.policies.offload(inner)


def keep_in(store: ActivationStore, inner: AnyPolicy) -> Policy:
    """Saves in `store` that which `inner` saves. See `reprise.stores`."""
    return _C.policies.keep_in(store, inner)


def first_match(*policies: AnyPolicy) -> Policy:
    """Returns the first answer other than PREFER_RECOMPUTE. Later policies are not asked."""
    return _C.policies.first_match(*policies)


def override_with(base: AnyPolicy, overriding: AnyPolicy) -> Policy:
    """Returns the answer of `overriding` if it is a MUST, else that of `base`. Both are asked."""
    return _C.policies.override_with(base, overriding)


def for_region(name: str, policy: AnyPolicy, otherwise: AnyPolicy) -> Policy:
    """Asks `policy` in regions of exactly this name, and `otherwise` in others."""
    return _C.policies.for_region(name, policy, otherwise)


def with_state(make_state: Callable[[], Any], decide: Callable[..., Any]) -> Policy:
    """Returns the answers of `decide(state, context, op, *args, **kwargs)`, as of any function.

    `state` is what `make_state()` returns: another one for each run of a region, so that the answers
    depend on the region only. A call for a value named by checkpoint_name() comes in addition to the one
    for its operator; its `op` is None.

    >>> def first_four(seen, context, op, *args, **kwargs):
    ...     seen.append(op)
    ...     return len(seen) <= 4
    >>> policy = reprise.policies.with_state(list, first_four)
    """
    if not callable(make_state) or not callable(decide):
        raise TypeError("make_state and decide should be functions")
    return _C.policies.with_state(lambda: functools.partial(decide, make_state()))
