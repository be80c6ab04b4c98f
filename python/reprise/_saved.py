# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""saved_tensors(): what an autograd graph holds for backward, and where it comes from."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from reprise import _report
from reprise._native import _C
from reprise._quantities import bytes_text
from reprise._tables import table_lines

__all__ = ["RecordedModules", "SavedTensors", "record_modules", "saved_tensors"]

_MOST_LINES = 30


class RecordedModules:
    """The modules whose forwards have run in record_modules(), for saved_tensors()."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._numbers: list[int] = []  # of nodes, from which on a module runs
        self._paths: list[str] = []

    def _begin(self, path: str) -> None:
        self._numbers.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
        self._paths.append(path)

    def path_at(self, number: int) -> str:
        """Returns the path of the innermost module that made the node; "" without one."""
        place = bisect_right(self._numbers, number)
        return self._paths[place - 1] if place else ""


@contextlib.contextmanager
def record_modules(model: nn.Module) -> Iterator[RecordedModules]:
    """Context manager around forward: which module makes which nodes, for saved_tensors().

    >>> with reprise.record_modules(model) as modules:
    ...     loss = model(x).square().mean()
    >>> print(reprise.saved_tensors(loss, modules=modules))

    It sets hooks for all modules while it is entered. Only the thread that enters it is recorded.
    """
    recorded = RecordedModules()
    paths = {id(module): path for path, module in model.named_modules()}
    running: list[str] = []

    def is_recorded(module: nn.Module) -> bool:
        is_here = threading.get_ident() == recorded._thread
        return id(module) in paths and is_here and not _C.is_recomputing()

    def before(module: nn.Module, inputs: Any) -> None:
        if is_recorded(module):
            running.append(paths[id(module)] or type(model).__name__)
            recorded._begin(running[-1])

    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        if is_recorded(module) and running:
            running.pop()
            recorded._begin(running[-1] if running else "")

    hooks = [
        nn.modules.module.register_module_forward_pre_hook(before),
        nn.modules.module.register_module_forward_hook(after, always_call=True),
    ]
    try:
        yield recorded
    finally:
        for hook in hooks:
            hook.remove()


def _node_of(output: Any) -> Any:
    """Returns the node behind a tensor or gradient edge; None for other objects."""
    return getattr(output, "node", None) or getattr(output, "grad_fn", None)


class SavedTensors:
    """The bill of a graph, as saved_tensors() returns it; printed, a table of the largest parts.

    rows: a dict for each storage that the graph holds, with "module", "region", "node", "operator",
        "kind", "bytes", "shape", "dtype" and "device"; what is unknown is "".
    leaves: the same for the tensors that gradients are for: parameters, and inputs that require
        grad. They outlive the graph as a rule, and are in none of the sums.
    unread: names of the nodes of which some tensors are unknown: others' hooks of C++ hold them,
        the node does not show what it saves, or a saved tensor has been written since.
    """

    def __init__(self, rows: list[dict[str, Any]], leaves: list[dict[str, Any]], unread: list[str]):
        self.rows = rows
        self.leaves = leaves
        self.unread = unread

    @property
    def total_bytes(self) -> int:
        """The bytes of all rows."""
        return sum(row["bytes"] for row in self.rows)

    def bytes_by(self, *columns: str) -> dict[Any, int]:
        """Returns the bytes for each value of a column, or tuple of values, the largest first."""
        sums: dict[Any, int] = {}
        for row in self.rows:
            values = tuple(row[column] for column in columns)
            key = values[0] if len(columns) == 1 else values
            sums[key] = sums.get(key, 0) + row["bytes"]
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        total = self.total_bytes
        lines = [
            f"saved for backward: {bytes_text(total)} in {len(self.rows)} storages, and "
            f"{bytes_text(sum(row['bytes'] for row in self.leaves))} of leaves"
        ]
        columns = ("module", "region", "node", "kind")
        sums = list(self.bytes_by(*columns).items())
        shown = [
            (bytes_text(size), f"{size / max(1, total):.1%}", *(value or "-" for value in values))
            for values, size in sums[:_MOST_LINES]
        ]
        lines += table_lines([("bytes", "part", *columns), *shown])
        if len(sums) > _MOST_LINES:
            rest = bytes_text(sum(size for _, size in sums[_MOST_LINES:]))
            lines.append(f"{len(sums) - _MOST_LINES} more, of {rest}")
        if self.unread:
            lines.append(
                f"unknown tensors of {len(self.unread)} nodes, the first of them {self.unread[0]}"
            )
        return "\n".join(lines)

    def write_picture(self, path: Any) -> None:
        """Draws the bytes by module and kind into an .html file, which needs no network, or an .svg.

        Args:
            path: a name that ends in .html or .svg.

        Raises:
            ValueError: If the name ends otherwise.
            ImportError: If altair or vl-convert-python is not installed:
                pip install 'reprise-torch[report]'.
        """
        _report.write_bill(self.rows, path)


def saved_tensors(outputs: Any, *, modules: RecordedModules | None = None) -> SavedTensors:
    """Returns what the graph behind tensors holds for backward, each storage once.

    Plain saved tensors, what regions hold (inputs, results that a policy or a budget retains), what
    stores hold on the tensors' device, what hooks of Python have packed, what a custom Function of
    C++ saves, and what one of Python keeps on its ctx. Nothing is recomputed, no hook is called,
    and nothing changes. Not while a backward through the graph runs.

    It cannot see what a region's code refers to besides its arguments.

    Args:
        outputs: a tensor, such as the loss, a GradientEdge, or a container of them.
        modules: from record_modules() around forward, for the column "module".

    Returns:
        Rows, sums, a table and a picture.
    """
    rows, leaves, unread = _C.saved_tensors([_node_of(output) for output in _roots(outputs)])
    for row in (*rows, *leaves):
        number = row.pop("sequence_number")
        row["module"] = modules.path_at(number) if modules is not None else ""
    return SavedTensors(rows, leaves, unread)


def _roots(outputs: Any) -> list[Any]:
    if isinstance(outputs, torch.autograd.graph.GradientEdge):
        return [outputs]
    return _pytree.tree_leaves(
        outputs, is_leaf=lambda each: isinstance(each, torch.autograd.graph.GradientEdge)
    )
