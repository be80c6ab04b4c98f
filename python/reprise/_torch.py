# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""patch_torch(): torch.utils.checkpoint's functions, done by this library."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch.utils.checkpoint as torch_checkpoint

from reprise import _checkpoint, _compile, _engine, _policies

__all__ = ["patch_torch", "patched_torch"]

_torch_checkpoint = _checkpoint._torch_checkpoint
_patched: list[
    tuple[types.ModuleType, str, object]
] = []  # modules, the names that are patched in them, and torch's objects


@_compile.never_traced
@functools.wraps(_torch_checkpoint)
def _checkpoint_as_torch(
    function: Any, *args: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    # None has torch's meaning: a warning, and the reentrant variant. A compiler's graph gets the
    # region from torch's function. Modules that were imported under the patch outlive it.
    if use_reentrant is None or not _patched or _compile.is_tracing():
        return _torch_checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)
    return _checkpoint.checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)


class _GraphExecGroup(_checkpoint.GraphExecGroup):
    """Ours, for regions of torch's as well: those of objects that keep torch's function."""

    _torch_group: Any = getattr(torch_checkpoint, "GraphExecGroup", None)

    def __enter__(self) -> _GraphExecGroup:
        super().__enter__()
        self._entered = self._torch_group()
        self._entered.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.__exit__(*error)
        super().__exit__(*error)

    @classmethod
    def _get_current_group(cls) -> Any:  # asked by torch's regions
        return cls._torch_group._get_current_group()


_REPLACEMENTS = {
    "checkpoint": _checkpoint_as_torch,
    "create_selective_checkpoint_contexts": _compile.create_selective_checkpoint_contexts,
    "SelectiveCheckpointContext": _policies.SelectiveCheckpointContext,
    "set_checkpoint_early_stop": _checkpoint.set_checkpoint_early_stop,
    "set_checkpoint_debug_enabled": _checkpoint.set_checkpoint_debug_enabled,
    "GraphExecGroup": _GraphExecGroup,
}


def _find(objects: Iterable[object]) -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Yields each module that holds one of `objects`, its name there, and the object."""
    wanted = {id(found) for found in objects}
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.split(".")[0] != "reprise":
            for attribute, value in list(vars(module).items()):
                if id(value) in wanted:
                    yield module, attribute, value


def patch_torch() -> None:
    """Makes code that uses torch.utils.checkpoint use this library, unless it is reentrant.

    For code that is not one's own: frameworks with their own switch for checkpointing. Modules that
    have imported the functions by name get them as well; an object that holds one, such as a
    functools.partial, keeps it. A second call does nothing; see patched_torch() to end it.
    """
    if _patched:
        return
    _engine.install()
    originals = {
        getattr(torch_checkpoint, name): replacement
        for name, replacement in _REPLACEMENTS.items()
        if hasattr(torch_checkpoint, name)
    }
    for module, attribute, original in _find(originals):
        _patched.append((module, attribute, original))
        setattr(module, attribute, originals[original])
    # Tracing knows the function only under its name in torch.
    function: Any
    for function in (_torch_checkpoint, _checkpoint_as_torch):
        function._torchdynamo_inline = _compile.traced_checkpoint


def _unpatch_torch() -> None:
    for module, attribute, original in _patched:
        setattr(module, attribute, original)
    _patched.clear()


@contextlib.contextmanager
def patched_torch() -> Iterator[None]:
    """Context manager: patch_torch() for the code in it."""
    if _patched:
        yield
        return
    patch_torch()
    try:
        yield
    finally:
        _unpatch_torch()
