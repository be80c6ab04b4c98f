# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Graphs that torch.compile's inductor has made: inside a region each call is one operator."""

from __future__ import annotations

import functools
import warnings
from types import ModuleType
from typing import Any

from reprise import _torch_modules
from reprise._native import _C

__all__ = ["install"]


def _call_as_operators(module: ModuleType) -> None:
    graphs = getattr(module, "CompiledFxGraph", None)
    if graphs is None or "mutated_input_idxs" not in graphs.__annotations__:
        warnings.warn(
            "this torch has no torch._inductor.output_code.CompiledFxGraph with mutated_input_idxs: "
            "regions retain the results of compiled graphs",
            stacklevel=2,
        )
        return
    call = graphs.__call__

    @functools.wraps(call)
    def call_in_regions(self: Any, inputs: Any) -> Any:
        return _C.call_compiled_graph(call, self, inputs)

    graphs.__call__ = call_in_regions


def install() -> None:
    _torch_modules.when_imported("torch._inductor.output_code", _call_as_operators)
