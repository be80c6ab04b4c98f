# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Finds the steps of a program that knows nothing of this package.

A step begins at the outermost call of a module with grad mode on, and ends where a backward begins,
or, without one, at the next such call once the graph of its results is gone.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from reprise import _compile, _engine
from reprise._native import _C

__all__ = ["Steps"]

Begin = Callable[[nn.Module], "AbstractContextManager[Any] | None"]
Roots = Sequence[Any]


class _Alive:
    """Lives as long as a node of autograd, in whose metadata it is."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.step: AbstractContextManager[Any] | None = None
        self.is_inside = False  # a call of a module that belongs to the step
        self.graphs: list[weakref.ref[_Alive]] = []  # of the results of outermost calls
        self.has_other_results = False


def _is_traced() -> bool:
    """Returns whether a module is called for its graph, or to compute a part of backward again."""
    return (
        torch._C._current_graph_task_id() != -1
        or _C.is_recomputing()
        or torch.jit.is_tracing()
        or _compile.is_tracing()
        or torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    )


class Steps:
    """Watches the calls of modules and the backwards of all threads.

    Args:
        begin: called with the outermost module; returns a context manager that has been entered
            for the step, or None, which leaves the call as it is.
        at_backward: called with the roots of the backward that ends a step, before it has ended.
    """

    def __init__(self, begin: Begin, at_backward: Callable[[Roots], None] | None = None):
        self._begin = begin
        self._at_backward = at_backward
        self._here = _Thread()

    def install(self) -> None:
        """Begins to watch, to the end of the process."""
        call, steps = nn.Module.__call__, self

        @functools.wraps(call)
        def call_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if (
                torch.compiler.is_compiling()
                or steps._here.is_inside
                or not torch.is_grad_enabled()
                or _is_traced()
            ):
                return call(module, *args, **kwargs)
            return steps._call_outermost(call, module, args, kwargs)

        nn.Module.__call__ = call_module  # type: ignore[method-assign]
        _engine.before_backward.append(self._before_backward)

    def _call_outermost(
        self, call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any
    ) -> Any:
        here = self._here
        if here.step is not None and self._has_been_dropped():
            self.end()
        if here.step is None:
            here.step = self._begin(module)
            if here.step is None:
                return call(module, *args, **kwargs)
        here.is_inside = True
        try:
            result = call(module, *args, **kwargs)
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            here.is_inside = False
        if here.step is not None:
            self._follow(result)
        return result

    def _follow(self, result: Any) -> None:
        for leaf in _pytree.tree_leaves(result):
            if not isinstance(leaf, torch.Tensor):
                self._here.has_other_results |= not isinstance(leaf, (int, float, str, type(None)))
            elif leaf.grad_fn is not None:
                alive = _Alive()
                leaf.grad_fn.metadata["reprise step"] = alive  # type: ignore[index]
                self._here.graphs.append(weakref.ref(alive))

    def _has_been_dropped(self) -> bool:
        here = self._here
        return not here.has_other_results and all(graph() is None for graph in here.graphs)

    def _before_backward(self, roots: Roots, makes_graph: bool, accumulates: bool) -> None:
        # A gradient of a gradient is a part of the step.
        if self._here.step is None or (makes_graph and not accumulates):
            return
        if torch._C._current_graph_task_id() != -1:
            return  # a part of a backward
        if self._at_backward is not None:
            self._at_backward(roots)
        self.end()

    def end(self) -> None:
        """Ends this thread's step, if there is one."""
        step = self._leave()
        if step is not None:
            step.__exit__(None, None, None)

    def _abandon(self, error: BaseException) -> None:
        step = self._leave()
        if step is not None:
            step.__exit__(type(error), error, error.__traceback__)

    def _leave(self) -> AbstractContextManager[Any] | None:
        here = self._here
        step, here.step = here.step, None
        here.is_inside = False
        here.graphs.clear()
        here.has_other_results = False
        return step
