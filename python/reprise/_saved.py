# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""saved_tensors(): what an autograd graph holds for backward, and where it comes from."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
Storages = list[tuple[int, int]]  # identity and bytes


class RecordedModules:
    """The modules whose forwards have run in record_modules(), for saved_tensors()."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._numbers: list[int] = []  # of nodes, from which on a module runs
        self._paths: list[str] = []

    def _begin(self, path: str) -> None:
        self._numbers.append(torch.autograd._get_sequence_nr())
        self._paths.append(path)

    def path_of(self, node: Any) -> str:
        """Returns the path of the innermost module that made a node of autograd; "" without one."""
        place = bisect_right(self._numbers, node._sequence_nr())
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


@functools.cache
def _raw_names(node_class: type) -> list[str]:
    return [name for name in dir(node_class) if name.startswith("_raw_saved_")]


@functools.cache
def _operator_of(node_name: str) -> str:
    """Returns the operator whose node has this name, if there is one: "aten::gelu"."""
    found = re.fullmatch(r"(\w+?)Backward\d*", node_name)
    if found is None:
        return ""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", found[1]).lower()
    known = (each for each in (name, f"_{name}") if hasattr(torch.ops.aten, each))
    return next((f"aten::{each}" for each in known), "")


def _storages(tensor: torch.Tensor) -> Storages:
    """Returns the storages of a tensor, also of sparse ones and of classes that hold tensors."""
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return [each for name in names for each in _storages(getattr(tensor, name))]
    if tensor.layout == torch.sparse_coo:
        return _storages(tensor._indices()) + _storages(tensor._values())
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        return [each for part in parts for each in _storages(part)]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
        return [each for part in parts for each in _storages(part)]
    try:
        storage = tensor.untyped_storage()
        return [(storage._cdata, storage.nbytes())]
    except (NotImplementedError, RuntimeError):
        return []  # it has no memory of its own


def _nodes(roots: Sequence[Any]) -> list[Any]:
    """Returns the nodes behind tensors and gradient edges, those of forward's beginning first."""
    stack = [getattr(root, "node", None) or getattr(root, "grad_fn", None) for root in roots]
    seen: dict[Any, None] = {}
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen[node] = None
            stack += (following for following, _ in node.next_functions)
    return sorted(seen, key=lambda node: node._sequence_nr())


class _Bill:
    def __init__(self, modules: RecordedModules | None):
        self.rows: list[dict[str, Any]] = []
        self._modules = modules
        self._seen: set[Any] = set()  # storages, entries of stores, regions

    def add_leaves(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            if isinstance(getattr(node, "variable", None), torch.Tensor):
                self._add_tensor(node, node.variable, "leaf")

    def add_node(self, node: Any) -> None:
        for name in _raw_names(type(node)):  # type: ignore[arg-type]
            try:
                raw = getattr(node, name)
            except RuntimeError:  # freed by a backward
                continue
            for saved in raw if isinstance(raw, (list, tuple)) else [raw]:
                if saved is not None:
                    self._add_saved(node, saved)
        for value in getattr(node, "__dict__", {}).values():
            for leaf in _pytree.tree_leaves(value):
                if isinstance(leaf, torch.Tensor):
                    self._add_tensor(node, leaf, "kept on ctx")

    def _add_saved(self, node: Any, saved: Any) -> None:
        by_hooks = _C.held_by(saved)
        if by_hooks is None:
            if saved.data is not None:
                self._add_tensor(node, saved.data, "saved")
            return
        region = by_hooks.get("region", "")
        if "frame" in by_hooks:
            if ("frame", by_hooks["frame"]) in self._seen:
                return
            self._seen.add(("frame", by_hooks["frame"]))
            region = region or "(without a name)"
        for tensor, entry, stored_bytes, why, operator in by_hooks["held"]:
            more = {"region": region, "operator": operator}
            if tensor is not None:
                self._add_tensor(node, tensor, f"{why} of a region" if region else why, **more)
            elif (key := ("entry", entry)) not in self._seen:
                self._seen.add(key)
                self._add_row(node, stored_bytes, f"{why}, in a store" if region else why, **more)
        for leaf in _pytree.tree_leaves(by_hooks["packed"]):
            if isinstance(leaf, torch.Tensor):
                self._add_tensor(node, leaf, "packed by hooks")

    def _add_tensor(self, node: Any, tensor: torch.Tensor, kind: str, **more: str) -> None:
        new = {key: size for key, size in _storages(tensor) if key not in self._seen}
        self._seen.update(new)
        if new:
            more |= {"shape": "x".join(map(str, tensor.shape)), "dtype": str(tensor.dtype)[6:]}
            self._add_row(node, sum(new.values()), kind, device=str(tensor.device), **more)

    def _add_row(self, node: Any, size: int, kind: str, **more: str) -> None:
        name = node.name() if hasattr(node, "name") else type(node).__name__
        self.rows.append(
            {
                "module": self._modules.path_of(node) if self._modules is not None else "",
                "region": "",
                "node": name,
                "kind": kind,
                "bytes": size,
                "shape": "",
                "dtype": "",
                "device": "",
                **more,
                "operator": more.get("operator")
                or ("" if more.get("region") else _operator_of(name)),
            }
        )


class SavedTensors:
    """The bill of a graph, as saved_tensors() returns it; printed, a table of the largest parts.

    rows: a dict for each storage that the graph holds, with "module", "region", "node", "operator",
        "kind", "bytes", "shape", "dtype" and "device"; what is unknown is "".
    leaves: the same for the tensors that gradients are for: parameters, and inputs that require
        grad. They outlive the graph as a rule, and are in none of the sums.
    """

    def __init__(self, rows: list[dict[str, Any]], leaves: list[dict[str, Any]]):
        self.rows = rows
        self.leaves = leaves

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
    stores hold on the tensors' device, what hooks of Python have packed, and what a custom Function
    keeps on its ctx. Nothing is recomputed, no hook is called, and nothing changes. Not while a
    backward through the graph runs.

    It cannot see what a Function of C++ saves, a region's code refers to besides its arguments, or
    others' hooks of C++ hold.

    Args:
        outputs: a tensor, such as the loss, a GradientEdge, or a container of them.
        modules: from record_modules() around forward, for the column "module".

    Returns:
        Rows, sums, a table and a picture.
    """
    nodes = _nodes(_roots(outputs))
    leaves = _Bill(modules)
    leaves.add_leaves(nodes)
    bill = _Bill(modules)
    bill._seen |= leaves._seen
    for node in nodes:
        bill.add_node(node)
    return SavedTensors(bill.rows, leaves.rows)


def _roots(outputs: Any) -> list[Any]:
    if isinstance(outputs, torch.autograd.graph.GradientEdge):
        return [outputs]
    return _pytree.tree_leaves(
        outputs, is_leaf=lambda each: isinstance(each, torch.autograd.graph.GradientEdge)
    )
