# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""torch.compile: regions in functions that it traces are torch's; in eager mode none is traced.

The compiler decides itself which tensors of a graph to compute again. It learns of a region and its
policy through torch.utils.checkpoint.checkpoint, so that is traced in place of ours.
"""

import functools

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch._C._dynamo import eval_frame

from reprise import _checkpoint, _engine, _policies
from reprise._native import _C

__all__ = [
    "create_selective_checkpoint_contexts",
    "install",
    "is_tracing",
    "never_traced",
    "traced_checkpoint",
]

_torch_contexts = torch_checkpoint.create_selective_checkpoint_contexts  # also after patch_torch()
_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def is_tracing():
    """Returns whether operators are being recorded into a graph, on tensors without values."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None


def never_traced(function):
    """Makes torch.compile run `function`, and all that it calls, as it is.

    As torch.compiler.disable(), but without a wrapper and without importing torch._dynamo, which
    takes a second.
    """
    eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return function


def traced_checkpoint(
    function,
    *args,
    use_reentrant=None,
    respect_saved_tensors_hooks=None,
    options=None,
    **kwargs,
):
    """What torch.compile traces of checkpoint(); torch.export, which runs no backward, `function`."""
    if torch.compiler._is_exporting_flag:
        return function(*args, **kwargs)
    if options is not None and not options.is_traceable:
        torch._dynamo.graph_break(
            msg="reprise.checkpoint() runs in eager mode if its options have a policy or a store"
        )
    return torch_checkpoint.checkpoint(function, *args, use_reentrant=bool(use_reentrant), **kwargs)


def traced_forward(module_class):
    """Returns what is traced of the forward of a module that is a region."""

    def forward(self, *args, **kwargs):
        if not torch.compiler._is_exporting_flag:
            torch._dynamo.graph_break(msg="a module that is a region runs in eager mode")
        return module_class.forward(self, *args, **kwargs)

    return forward


class TraceableContexts(_policies.SelectiveCheckpointContexts):
    """A policy for checkpoint(); for torch's function, the pair of modes that it makes of it."""

    def __new__(cls, policy_fn_or_list, allow_cache_entry_mutation):
        if isinstance(policy_fn_or_list, str):
            policy_fn_or_list = [policy_fn_or_list]
        policy = _C.policies.to_policy(policy_fn_or_list)
        self = super().__new__(cls, policy, allow_cache_entry_mutation)
        self._policy_fn_or_list = policy_fn_or_list
        return self

    @functools.cached_property
    def _for_torch(self):
        return _torch_contexts(
            _policy_for_torch(self._policy_fn_or_list), self.allow_cache_entry_mutation
        )

    def __iter__(self):
        return iter(self._for_torch)

    def __getitem__(self, index):
        return self._for_torch[index]


def _policy_for_torch(policy_fn_or_list):
    if isinstance(policy_fn_or_list, _C.policies.Policy):
        raise TypeError(
            "torch.utils.checkpoint, and with it torch.compile, takes a function or a list of "
            "operators as a policy; those of reprise.policies are for regions in eager mode"
        )
    if isinstance(policy_fn_or_list, (list, tuple)):
        return [_overload(op) if isinstance(op, str) else op for op in policy_fn_or_list]

    def ask(context, op, *args, **kwargs):
        own = _policies.SelectiveCheckpointContext(
            is_recompute=context.is_recompute,
            op_output=getattr(context, "op_output", None),  # of torch 2.12
        )
        return policy_fn_or_list(own, op, *args, **kwargs)

    return ask


def _overload(name):
    name, _, overload = name.partition(".")
    return _policies.find_overload(name, overload)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Makes a policy the `context_fn` of a region, as torch.utils.checkpoint's function does.

    policy_fn_or_list: a function `policy(context, op, *args, **kwargs)` that returns a
        CheckpointPolicy or a bool, asked once for each operator in forward; a list of operators to
        save; or a policy of `reprise.policies`, which costs a fraction.
    allow_cache_entry_mutation: accepts that a saved result is modified in place; the recomputation
        then computes everything again.

    Returns a pair for `checkpoint(..., context_fn=functools.partial(...))`.
    Raises TypeError for other objects, ValueError for other elements of the list.
    """
    return TraceableContexts(policy_fn_or_list, allow_cache_entry_mutation)


def install():
    _checkpoint.checkpoint._torchdynamo_inline = traced_checkpoint
    never_traced(_checkpoint.checkpoint)
    never_traced(_engine.ObservedEngine.run_backward)  # and so the recomputations in it
