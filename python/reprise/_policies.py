# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Policies as the extension module asks for them, and what it answers with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch.utils.checkpoint import CheckpointPolicy

from reprise._native import _C

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "SelectiveCheckpointContexts"]


@dataclasses.dataclass(frozen=True)
class SelectiveCheckpointContext:
    """What a policy learns of a call besides the operator and its arguments.

    `is_recompute` is always False: policies are asked in forward only. `name` is that given by
    `checkpoint_name()`, if the policy is asked because of it (its operator is None then); `scopes` are
    the names of the `name_scope`s around the call, outermost first. `op_output` is the operator's
    result, or the named value.
    """

    is_recompute: bool = False
    name: str = ""
    region: str = ""
    scopes: tuple[str, ...] = ()
    output_bytes: int = 0
    op_output: object = None


def find_overload(name: str, overload: str) -> Any:
    namespace, op = name.split("::", 1)
    packet = getattr(getattr(torch.ops, namespace), op)
    return getattr(packet, overload or "default")


def operator_names(operators: Sequence[Any]) -> list[str]:
    """Returns the names of operators to save: OpOverloads, or names as in "aten::mm"."""
    names = []
    for op in operators:
        if isinstance(op, torch._ops.OpOverload):
            schema = op._schema
            names.append(f"{schema.name}.{schema.overload_name}".rstrip("."))
        elif isinstance(op, str):
            names.append(op)
        else:
            extra = (
                "Please update the OpOverloadPacket to a specific OpOverload."
                "For example, if you have `torch.ops.aten.mm`, change it to "
                "`torch.ops.aten.mm.default`."
                if isinstance(op, torch._ops.OpOverloadPacket)
                else ""
            )
            raise ValueError(
                f"Expected op in `op_list` to be an OpOverload but got: {op} "
                f"of type {type(op)}. {extra}"
            )
    return names


class SelectiveCheckpointContexts(tuple[Any, ...]):
    """A policy in the form of torch.utils.checkpoint: a pair of context managers.

    checkpoint() asks the policy and does not enter them.
    """

    policy: _C.policies.Policy
    allow_cache_entry_mutation: bool

    def __new__(cls, policy: _C.policies.Policy, allow_cache_entry_mutation: bool) -> Self:
        self = super().__new__(cls, (contextlib.nullcontext(), contextlib.nullcontext()))
        self.policy = policy
        self.allow_cache_entry_mutation = allow_cache_entry_mutation
        return self


def as_policy(contexts: Any) -> SelectiveCheckpointContexts | None:
    """Returns the policy of a pair of contexts; None if they are no policy's.

    Torch's own pair would have torch's semantics: other random numbers, and one backward.
    """
    if isinstance(contexts, SelectiveCheckpointContexts):
        return contexts
    caching = getattr(torch_checkpoint, "_CachingTorchDispatchMode", ())
    forward, recompute = contexts
    if not isinstance(forward, caching):
        return None
    return SelectiveCheckpointContexts(
        _C.policies.to_policy(forward.policy_fn), recompute.allow_cache_entry_mutation
    )
