# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""explain_out_of_memory(): the bill of what is alive, at the error itself."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import torch

from reprise._errors import BudgetExceededError
from reprise._quantities import bytes_text
from reprise._saved import RecordedModules, record_modules, saved_tensors

__all__ = ["explain_out_of_memory"]

_OF_THE_CPU = "DefaultCPUAllocator"


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, BudgetExceededError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _OF_THE_CPU in str(error)


def _live_tensors() -> list[torch.Tensor]:
    # type(), as isinstance() runs code of the objects, such as lazy modules.
    return [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]


def _bytes_outside(tensors: list[torch.Tensor]) -> int:
    """Returns the bytes of tensors' storages, each once."""
    sizes: dict[int, int] = {}
    for tensor in tensors:
        with contextlib.suppress(NotImplementedError, RuntimeError):  # without memory of its own
            storage = tensor.untyped_storage()
            sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())


def _note(modules: RecordedModules | None) -> str:
    tensors = _live_tensors()
    bill = saved_tensors([each for each in tensors if each.grad_fn is not None], modules=modules)
    named = bytes_text(_bytes_outside(tensors))
    return f"When memory ran out, tensors with a name in Python had {named}, and graphs had\n{bill}"


def _add_note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:  # before Python 3.11
        error.args = (f"{error}\n{note}", *error.args[1:])


@contextlib.contextmanager
def explain_out_of_memory(model: torch.nn.Module | None = None) -> Iterator[None]:
    """Context manager, or decorator: adds the bill of saved tensors to an error of too little memory.

    >>> with reprise.explain_out_of_memory(model):
    ...     loss = model(x).square().mean()
    ...     loss.backward()

    The error stays what it is: torch.OutOfMemoryError, the CPU's RuntimeError, MemoryError or
    BudgetExceededError. Its note (`__notes__`, printed with the traceback; before Python 3.11 a part
    of its message) has saved_tensors() of all graphs that are alive, also of unfinished ones, whose
    beginning the tensors of the interrupted code still hold. Nothing is done before there is an
    error, except for what record_modules() does if there is a model.

    Args:
        model: for the column of modules.
    """
    recording: Any = contextlib.nullcontext() if model is None else record_modules(model)
    with recording as modules:
        try:
            yield
        except BaseException as error:
            if _is_out_of_memory(error):
                with contextlib.suppress(Exception):  # the first error is the one to see
                    _add_note(error, _note(modules))
            raise
