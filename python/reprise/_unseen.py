# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Code of torch that runs inside regions and is no part of them: it is hidden from policies.

Such code may run in forward only, and under a policy all other code has to run the same operators
each time. Its modules are not imported here: some take a second. They are found as they are.
"""

import contextlib
import functools
import sys

import torch

from reprise._native import _C

__all__ = ["install"]


def _hide_compilation(module):
    # A compiled function compiles when it is called first, and makes tensors without values for it.
    handler = module.callback.callback_handler
    install_callbacks = handler.install_callbacks  # entered around each compilation

    @contextlib.contextmanager
    def install_hidden(*args, **kwargs):
        with _C.policy_bypass(), install_callbacks(*args, **kwargs):
            yield

    handler.install_callbacks = install_hidden


def _hide_gathering(module):
    # The hooks of fully_shard() gather parameters before the module runs. In backward that has been
    # done before the recomputation begins.
    state = module.FSDPState
    for name in ("_pre_forward", "_post_forward"):
        setattr(state, name, _hidden(getattr(state, name)))


def _hidden(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with _C.policy_bypass():
            return function(*args, **kwargs)

    return call


_HIDING = {
    "torch._dynamo": _hide_compilation,
    "torch.distributed.fsdp._fully_shard._fsdp_state": _hide_gathering,
}


class _Finder:
    """In sys.meta_path: calls what is to be called once a module has been imported.

    A spec that is only asked for, as by importlib.util.find_spec(), imports nothing: the next one
    calls it.
    """

    def find_spec(self, name, path=None, target=None):
        hide = _HIDING.get(name)
        spec = self._found_by_others(name, path, target) if hide is not None else None
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            hide(module)

        spec.loader.exec_module = exec_module
        return spec

    def _found_by_others(self, name, path, target):
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None


def install():
    for name, hide in _HIDING.items():
        if name in sys.modules:
            hide(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
