# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions inside of transforms of torch.func: where torch has no room for one, it runs plainly.

grad, vjp, jacrev and hessian allow no saved-tensor hooks. A function that runs again in backward
does so outside of vmap and jvp, with other tensors than in forward; a tape has the operators that
they made of it.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

import torch
from torch.utils.checkpoint import CheckpointError

__all__ = ["runs_plainly", "set_transforms_allowed"]

_TEXT = (
    "[checkpoint] a region inside of a transform of torch.func runs plainly: its tensors stay until "
    "backward; put the region around the transform, or use a CheckpointScope inside of vmap or jvp"
)


class _Allowed(threading.local):
    value = True


_allowed = _Allowed()
_has_hooks = torch._C._autograd._saved_tensors_hooks_is_enabled  # type: ignore[attr-defined]


def runs_plainly(is_tape: bool) -> bool:
    """Returns whether a region that begins inside of a transform is none.

    The first such region warns.

    Args:
        is_tape: whether the region records its operators, rather than to call its code again.
    """
    if is_tape and _has_hooks():
        return False
    if not _allowed.value:
        raise CheckpointError(f"{_TEXT} (set_transforms_allowed(False))")
    _warn_once()
    return True


_warned: list[bool] = []


def _warn_once() -> None:
    if not _warned:
        _warned.append(True)
        warnings.warn(_TEXT, stacklevel=4)


@contextlib.contextmanager
def set_transforms_allowed(allowed: bool) -> Iterator[None]:
    """Context manager: whether regions inside of transforms of torch.func may run plainly.

    Inside of grad, vjp, jacrev and hessian regions run plainly, and so do function regions inside of
    vmap and jvp: gradients are right, but the region's tensors stay until backward. The first one
    in a process warns.

    Args:
        allowed: False makes such a region a CheckpointError, on this thread.
    """
    before, _allowed.value = _allowed.value, allowed
    try:
        yield
    finally:
        _allowed.value = before
