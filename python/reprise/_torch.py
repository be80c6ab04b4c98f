# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""patch_torch(): torch.utils.checkpoint's functions, done by this library."""

import contextlib
import functools

import torch
import torch.utils.checkpoint as torch_checkpoint

from reprise import _checkpoint, _engine, _policies

__all__ = ["patch_torch", "patched_torch"]

_originals = {}


@functools.wraps(torch_checkpoint.checkpoint)
def _checkpoint_as_torch(function, *args, use_reentrant=None, **kwargs):
    if use_reentrant is None:  # torch's meaning: a warning, and the reentrant variant
        return _checkpoint._torch_checkpoint(function, *args, **kwargs)
    return _checkpoint.checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)


_REPLACEMENTS = {
    "checkpoint": _checkpoint_as_torch,
    "create_selective_checkpoint_contexts": _policies.create_selective_checkpoint_contexts,
    "SelectiveCheckpointContext": _policies.SelectiveCheckpointContext,
    "set_checkpoint_early_stop": _checkpoint.set_checkpoint_early_stop,
    "set_checkpoint_debug_enabled": _checkpoint.set_checkpoint_debug_enabled,
    "GraphExecGroup": _checkpoint.GraphExecGroup,
}


def patch_torch():
    """Makes code that uses torch.utils.checkpoint use this library, unless it is reentrant.

    For code that is not one's own: frameworks with their own switch for checkpointing. Code that
    has imported the functions by name before keeps torch's. A second call does nothing; see
    patched_torch() to end it.
    """
    if _originals:
        return
    _engine.install()
    for name, replacement in _REPLACEMENTS.items():
        if hasattr(torch_checkpoint, name):
            _originals[name] = getattr(torch_checkpoint, name)
            setattr(torch_checkpoint, name, replacement)


def _unpatch_torch():
    for name, original in _originals.items():
        setattr(torch_checkpoint, name, original)
    _originals.clear()


@contextlib.contextmanager
def patched_torch():
    """Context manager: patch_torch() for the code in it."""
    if _originals:
        yield
        return
    patch_torch()
    try:
        yield
    finally:
        _unpatch_torch()
