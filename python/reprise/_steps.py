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

# Takes the outermost module, and the positional and named arguments of its call.
Begin = Callable[
    [nn.Module, "tuple[Any, ...]", "dict[str, Any]"], "AbstractContextManager[Any] | None"
]
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
        or torch._C._is_tracing()
        or _compile.is_tracing()
        or torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    )


_watching: tuple[Steps, ...] = ()
_modules_call: Callable[..., Any] | None = None  # torch's, while any Steps are installed


def _call_watched(
    watching: tuple[Steps, ...], call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any
) -> Any:
    """Calls the module for the first of `watching` that is outside of a step, then for the others."""
    for i, steps in enumerate(watching):
        if not steps._here.is_inside:
            inner = functools.partial(_call_watched, watching[i + 1 :], call)
            return steps._call_outermost(inner, module, args, kwargs)
    return call(module, *args, **kwargs)


def _watch_modules() -> None:
    """Replaces Module.__call__ while any Steps are installed."""
    global _modules_call
    if _watching and _modules_call is None:
        call = _modules_call = nn.Module.__call__

        @functools.wraps(call)
        def call_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if (
                torch.compiler.is_compiling()
                or all(steps._here.is_inside for steps in _watching)
                or not torch.is_grad_enabled()
                or _is_traced()
            ):
                return call(module, *args, **kwargs)
            return _call_watched(_watching, call, module, args, kwargs)

        call_module._is_of_steps = True  # type: ignore[attr-defined]
        nn.Module.__call__ = call_module  # type: ignore[method-assign]
    elif not _watching and getattr(nn.Module.__call__, "_is_of_steps", False):
        nn.Module.__call__ = _modules_call  # type: ignore[method-assign,assignment]
        _modules_call = None


class Steps:
    """Watches the calls of modules and the backwards of all threads.

    Several may be installed: a call that one of them leaves as it is may be another's step.

    Args:
        begin: called with the outermost module and its arguments; returns a context manager that
            has been entered for the step, or None, which leaves the call as it is: a module that
            the call reaches may begin the step then.
        at_backward: called with the roots of the backward that ends a step, before it has ended.
    """

    def __init__(self, begin: Begin, at_backward: Callable[[Roots], None] | None = None):
        self._begin = begin
        self._at_backward = at_backward
        self._here = _Thread()

    def install(self) -> None:
        """Begins to watch, to the end of the process or until remove()."""
        global _watching
        _watching = (*_watching, self)
        _watch_modules()
        _engine.before_backward.append(self._before_backward)

    def remove(self) -> None:
        """Ends this thread's step, if there is one, and watches no more."""
        global _watching
        self.end()
        if self in _watching:
            _watching = tuple(steps for steps in _watching if steps is not self)
            _watch_modules()
            _engine.before_backward.remove(self._before_backward)

    def _call_outermost(
        self, call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any
    ) -> Any:
        here = self._here
        if here.step is not None and self._has_been_dropped():
            self.end()
        if here.step is None:
            here.step = self._begin(module, args, kwargs)
            if here.step is None:
                return call(module, args, kwargs)
        here.is_inside = True
        try:
            result = call(module, args, kwargs)
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
