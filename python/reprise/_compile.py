# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""torch.compile: regions in functions that it traces are torch's; in eager mode none is traced.

The compiler decides itself which tensors of a graph to compute again. It learns of a region and its
policy through torch.utils.checkpoint.checkpoint, so that is traced in place of ours. A backend that
runs the graph as it is, as "eager", does not decide: then a traced region is ours again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch._C._dynamo import eval_frame
from torch._higher_order_ops.wrap import TagActivationCheckpoint
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from reprise import _checkpoint, _engine, _policies
from reprise._native import _C

if TYPE_CHECKING:
    from typing_extensions import Self

    from reprise._checkpoint import Contexts
    from reprise.policies import AnyPolicy

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "create_selective_checkpoint_contexts",
    "install",
    "is_tracing",
    "never_traced",
    "traced_checkpoint",
]

_torch_contexts: Any = (
    torch_checkpoint.create_selective_checkpoint_contexts
)  # also after patch_torch()
_OURS: Any = "reprise"  # for use_reentrant, which no compiler reads
_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def is_tracing() -> bool:
    """Returns whether operators are being recorded into a graph, on tensors without values."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None


def never_traced(function: F) -> F:
    """Makes torch.compile run `function`, and all that it calls, as it is.

    As torch.compiler.disable(), but without a wrapper and without importing torch._dynamo, which
    takes a second.
    """
    eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return function


def traced_checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    respect_saved_tensors_hooks: bool | None = None,
    options: _checkpoint.CheckpointOptions | None = None,
    **kwargs: Any,
) -> Any:
    """What torch.compile traces of checkpoint(); torch.export, which runs no backward, `function`."""
    if torch.compiler._is_exporting_flag:
        return function(*args, **kwargs)
    if options is not None and not options.is_traceable:
        torch._dynamo.graph_break(
            msg="reprise.checkpoint() runs in eager mode if its options have a policy or a store"
        )
    return torch_checkpoint.checkpoint(function, *args, use_reentrant=_OURS, **kwargs)


def _is_compiled(args: tuple[Any, ...]) -> bool:
    """Returns whether a graph is made of what runs now, and not its results."""
    return is_tracing() or any(isinstance(arg, (FakeTensor, FunctionalTensor)) for arg in args)


def _running_ours(run_traced: Callable[..., Any]) -> Callable[..., Any]:
    """Returns torch's implementation of a region in a graph, which runs ours in eager mode."""

    def run(self: Any, graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("use_reentrant") != _OURS or _is_compiled(args):
            return run_traced(self, graph, *args, **kwargs)
        context_fn = graph.meta.get("_checkpoint_context_fn")
        contexts = {} if context_fn is None else {"context_fn": context_fn}
        options = kwargs | {"use_reentrant": False} | contexts
        return _checkpoint.checkpoint(graph, *args, **options)

    return run


def traced_forward(module_class: type[torch.nn.Module]) -> Callable[..., Any]:
    """Returns what is traced of the forward of a module that is a region."""

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler._is_exporting_flag:
            torch._dynamo.graph_break(msg="a module that is a region runs in eager mode")
        return module_class.forward(self, *args, **kwargs)

    return forward


class TraceableContexts(_policies.SelectiveCheckpointContexts):
    """A policy for checkpoint(); for torch's function, the pair of modes that it makes of it."""

    _policy_fn_or_list: Any

    def __new__(cls, policy_fn_or_list: AnyPolicy, allow_cache_entry_mutation: bool) -> Self:
        if isinstance(policy_fn_or_list, str):
            policy_fn_or_list = [policy_fn_or_list]
        policy = _C.policies.to_policy(policy_fn_or_list)
        self = super().__new__(cls, policy, allow_cache_entry_mutation)
        self._policy_fn_or_list = policy_fn_or_list
        return self

    @functools.cached_property
    def _for_torch(self) -> Any:
        return _torch_contexts(
            _policy_for_torch(self._policy_fn_or_list), self.allow_cache_entry_mutation
        )

    def __iter__(self) -> Any:
        return iter(self._for_torch)

    def __getitem__(self, index: Any) -> Any:
        return self._for_torch[index]


def _policy_for_torch(policy_fn_or_list: Any) -> Any:
    if isinstance(policy_fn_or_list, _C.policies.Policy):
        raise TypeError(
            "torch.utils.checkpoint, and with it torch.compile, takes a function or a list of "
            "operators as a policy; those of reprise.policies are for regions in eager mode"
        )
    if isinstance(policy_fn_or_list, (list, tuple)):
        return [_overload(op) if isinstance(op, str) else op for op in policy_fn_or_list]

    def ask(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        own = _policies.SelectiveCheckpointContext(
            is_recompute=context.is_recompute,
            op_output=getattr(context, "op_output", None),  # of torch 2.12
        )
        return policy_fn_or_list(own, op, *args, **kwargs)

    return ask


def _overload(name: str) -> Any:
    name, _, overload = name.partition(".")
    return _policies.find_overload(name, overload)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: AnyPolicy, allow_cache_entry_mutation: bool = False
) -> Contexts:
    """Makes a policy the `context_fn` of a region, as torch.utils.checkpoint's function does.

    Args:
        policy_fn_or_list: a function `policy(context, op, *args, **kwargs)` that returns a
            CheckpointPolicy or a bool, asked once for each operator in forward; a list of operators
            to save; or a policy of `reprise.policies`, which costs a fraction.
        allow_cache_entry_mutation: accepts that a saved result is modified in place; the
            recomputation then computes everything again.

    Returns:
        A pair for `checkpoint(..., context_fn=functools.partial(...))`.

    Raises:
        TypeError: For other objects.
        ValueError: For other elements of the list.
    """
    return TraceableContexts(policy_fn_or_list, allow_cache_entry_mutation)


def install() -> None:
    checkpoint: Any = _checkpoint.checkpoint
    checkpoint._torchdynamo_inline = traced_checkpoint
    graph_region: Any = TagActivationCheckpoint
    graph_region.__call__ = _running_ours(graph_region.__call__)
    never_traced(checkpoint)
    never_traced(_engine.ObservedEngine.run_backward)  # and so the recomputations in it
