# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Code of torch that runs inside regions and is no part of them: it is hidden from policies.

Such code may run in forward only, and under a policy all other code has to run the same operators
each time. Regions do not see the compilation among it, and tapes do not record the gathering.
"""

import contextlib
import functools
import operator
import weakref

import torch

from reprise import _torch_modules
from reprise._native import _C

__all__ = ["install"]


def _hide_compilation(module):
    # A compiled function compiles when it is called first. Its operators compute nothing: they are on
    # tensors without values, whose sizes may be symbols.
    handler = module.callback.callback_handler
    install_callbacks = handler.install_callbacks  # entered around each compilation

    @contextlib.contextmanager
    def install_hidden(*args, **kwargs):
        with _C.unobserved(), install_callbacks(*args, **kwargs):
            yield

    handler.install_callbacks = install_hidden


def _hide_hooks_of_units(module):
    # The hooks of fully_shard() gather parameters before the module runs. In backward that has been
    # done before the recomputation of a function begins.
    state = module.FSDPState
    for name, cast in (("_pre_forward", _cast_inputs), ("_post_forward", _cast_output)):
        function = _cast_when_recomputing(module, getattr(state, name), cast)
        setattr(state, name, _hidden(function, _C.policy_bypass))


def _cast_when_recomputing(module, function, cast):
    # In backward these hooks return their arguments as they are, and leave out the casts of mixed
    # precision.
    @functools.wraps(function)
    def call(self, *args, **kwargs):
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


def _cast_inputs(policy, arguments, cast):
    dtype = policy.param_dtype
    return cast(dtype, arguments) if policy.cast_forward_inputs and dtype else arguments


def _cast_output(policy, output, cast):
    return cast(policy.output_dtype, output) if policy.output_dtype is not None else output


def _hide_gathering(module):
    group = module.FSDPParamGroup
    group.unshard = _hidden(group.unshard, _C.framework_code)
    wait_for_unshard = _hidden(group.wait_for_unshard, _C.framework_code)

    @functools.wraps(wait_for_unshard)
    def wait(self, *args, **kwargs):
        result = wait_for_unshard(self, *args, **kwargs)
        if not torch.compiler.is_compiling():
            _set_refillable(self)
        return result

    group.wait_for_unshard = wait


def _hidden(function, guard):
    @functools.wraps(function)
    def call(*args, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with guard():
            return function(*args, **kwargs)

    return call


# The tensors of each group of parameters.
_REFILLABLE: "weakref.WeakKeyDictionary[object, list[torch.Tensor]]" = weakref.WeakKeyDictionary()


def _set_refillable(group):
    # A unit frees this memory, and gathers its parameters into it again.
    tensors = [
        tensor
        for parameter in group.fsdp_params
        for tensor in (*parameter.all_gather_outputs, *parameter._unsharded_inner_tensors)
    ]
    known = _REFILLABLE.get(group, ())
    if len(known) == len(tensors) and all(map(operator.is_, known, tensors)):
        return  # as in all steps but the first
    _REFILLABLE[group] = tensors
    this = weakref.ref(group)  # the memory is the group's own

    def gather():
        unit = this()
        if unit is not None:
            unit.unshard()
            unit.wait_for_unshard()

    _C.set_refillable(tensors, gather)


def install():
    for name, hide in (
        ("torch._dynamo", _hide_compilation),
        ("torch.distributed.fsdp._fully_shard._fsdp_param_group", _hide_gathering),
        ("torch.distributed.fsdp._fully_shard._fsdp_state", _hide_hooks_of_units),
    ):
        _torch_modules.when_imported(name, hide)
