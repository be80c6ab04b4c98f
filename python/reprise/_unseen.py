# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Code of torch that runs inside regions and is no part of them: it is hidden from policies.

Such code may run in forward only, and under a policy all other code has to run the same operators
each time. Regions do not see the compilation among it, and tapes do not record the gathering.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch

from reprise import _torch_modules
from reprise._native import _C

__all__ = ["install"]


def _hide_compilation(module: ModuleType) -> None:
    # A compiled function compiles when it is called first. Its operators compute nothing: they are on
    # tensors without values, whose sizes may be symbols.
    handler = module.callback.callback_handler
    install_callbacks = handler.install_callbacks  # entered around each compilation

    @contextlib.contextmanager
    def install_hidden(*args: Any, **kwargs: Any) -> Iterator[None]:
        with _C.unobserved(), install_callbacks(*args, **kwargs):
            yield

    handler.install_callbacks = install_hidden


def _hide_hooks_of_units(module: ModuleType) -> None:
    # The hooks of fully_shard() gather parameters before the module runs. In backward that has been
    # done before the recomputation of a function begins.
    state = module.FSDPState
    for name, cast in (("_pre_forward", _cast_inputs), ("_post_forward", _cast_output)):
        function = _cast_when_recomputing(module, getattr(state, name), cast)
        setattr(state, name, _hidden(function, _C.policy_bypass))


def _cast_when_recomputing(module: ModuleType, function: Any, cast: Any) -> Any:
    # In backward these hooks return their arguments as they are, and leave out the casts of mixed
    # precision.
    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_in_backward = self._training_state == module.TrainingState.PRE_BACKWARD
        result = function(self, *args, **kwargs)
        if not is_in_backward or not _C.is_recomputing():
            return result
        return cast(
            self._mp_policy,
            result,
            lambda dtype, value: module._apply_to_tensors(
                functools.partial(module._cast_fp_tensor, dtype), value
            ),
        )

    return call


def _cast_inputs(policy: Any, arguments: Any, cast: Any) -> Any:
    dtype = policy.param_dtype
    return cast(dtype, arguments) if policy.cast_forward_inputs and dtype else arguments


def _cast_output(policy: Any, output: Any, cast: Any) -> Any:
    return cast(policy.output_dtype, output) if policy.output_dtype is not None else output


def _hide_gathering(module: ModuleType) -> None:
    # Of units of fully_shard(): a unit uses what it has waited for until its forward ends.
    group = module.FSDPParamGroup
    group.unshard = _hidden(group.unshard, _C.framework_code)
    group.wait_for_unshard = _followed_by(
        _hidden(group.wait_for_unshard, _C.framework_code),
        lambda unit: _set_refillable(
            unit, _gathered_by_group(unit), _gather_group, _start_gathering_group
        ),
    )
    group.post_forward = _followed_by(group.post_forward, _end_use)


def _gathered_by_group(group: Any) -> list[torch.Tensor]:
    return [
        tensor
        for parameter in group.fsdp_params
        for tensor in (*parameter.all_gather_outputs, *parameter._unsharded_inner_tensors)
    ]


def _gather_group(group: Any) -> None:
    _start_gathering_group(group, is_waited_for=True)
    group.wait_for_unshard()


def _start_gathering_group(group: Any, is_waited_for: bool = False) -> None:
    # On a stream of its own, beside the computation, as backward gathers ahead: a CPU has none. A
    # group that backward is told to leave alone is gathered nevertheless: the region needs it.
    state = group._training_state
    if group.unshard_in_backward:
        state = type(state).PRE_BACKWARD
    with group.use_training_state(state):
        is_beside = group.unshard_async_op or group.device.type == "cpu"
        group.unshard(async_op=is_beside and not is_waited_for)


def _hide_older_gathering(module: ModuleType) -> None:
    # Of FullyShardedDataParallel. A handle reshards when the forward of its unit ends.
    handle = module.FlatParamHandle
    for name in ("pre_unshard", "post_unshard", "post_reshard"):
        setattr(handle, name, _hidden(getattr(handle, name), _C.framework_code))
    handle.unshard = _followed_by(
        _hidden(_uncounted(handle.unshard), _C.framework_code),
        lambda unit: _set_refillable(unit, _gathered_by_handle(unit), _gather_handle),
    )
    handle.reshard = _followed_by(_hidden(handle.reshard, _C.framework_code), _end_use)


def _uncounted(unshard: Callable[..., Any]) -> Callable[..., Any]:
    # The same contents again, for which the parameters' own version counters count no write.
    @functools.wraps(unshard)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        preserved: Any = torch.autograd._unsafe_preserve_version_counter  # type: ignore[attr-defined]
        with preserved(tuple(_gathered_by_handle(self))):
            return unshard(self, *args, **kwargs)

    return call


def _gathered_by_handle(handle: Any) -> list[torch.Tensor]:
    return [handle._get_padded_unsharded_flat_param()] if handle.uses_sharded_strategy else []


def _gather_handle(handle: Any) -> None:
    handle.pre_unshard()
    handle.unshard()
    handle.post_unshard()


def _hidden(
    function: Callable[..., Any], guard: Callable[[], AbstractContextManager[None]]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with guard():
            return function(*args, **kwargs)

    return call


def _followed_by(function: Callable[..., Any], then: Callable[[Any], object]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if not torch.compiler.is_compiling():
            then(self)
        return result

    return call


# The tensors that each unit gathers.
_REFILLABLE: weakref.WeakKeyDictionary[object, list[torch.Tensor]] = weakref.WeakKeyDictionary()


def _set_refillable(
    unit: Any,
    tensors: list[torch.Tensor],
    gather: Callable[[Any], object],
    start: Callable[[Any], object] | None = None,
) -> None:
    # The unit frees this memory, and gathers its parameters into it again. They are in use.
    known = _REFILLABLE.get(unit, ())
    if len(known) == len(tensors) and all(map(operator.is_, known, tensors)):
        _set_in_use(tensors, True)
        return  # as in all steps but the first
    _REFILLABLE[unit] = tensors
    this = weakref.ref(unit)  # the memory is the unit's own

    def call(function: Callable[[Any], object] | None) -> None:
        unit = this()
        if unit is not None and function is not None:
            function(unit)

    refill, begin = (functools.partial(call, function) for function in (gather, start))
    _C.set_refillable(tensors, refill=refill, start=begin)


def _end_use(unit: Any) -> None:
    _set_in_use(_REFILLABLE.get(unit, ()), False)


def _set_in_use(tensors: Sequence[torch.Tensor], is_in_use: bool) -> None:
    for tensor in tensors[:1]:  # they share it
        _C.set_in_use(tensor, is_in_use)


def install() -> None:
    for name, hide in (
        ("torch._dynamo", _hide_compilation),
        ("torch.distributed.fsdp._fully_shard._fsdp_param_group", _hide_gathering),
        ("torch.distributed.fsdp._fully_shard._fsdp_state", _hide_hooks_of_units),
        ("torch.distributed.fsdp._flat_param", _hide_older_gathering),
    ):
        _torch_modules.when_imported(name, hide)
