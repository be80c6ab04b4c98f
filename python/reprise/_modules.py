# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Makes modules of a model regions, in place."""

from __future__ import annotations

import functools
import types
from typing import Any

from torch import nn

from reprise import _compile
from reprise._checkpoint import (
    CheckpointOptions,
    CheckpointScope,
    check_options,
    describe_options,
    run_region,
)
from reprise._select import Selection, choose, every_of_class
from reprise._tables import table_lines

__all__ = ["CheckpointedModules", "apply_checkpointing", "remove_checkpointing"]


@functools.cache
def _as_region(module_class: type[nn.Module]) -> type[nn.Module]:
    """A subclass whose forward is a region. Parameters, names and hooks stay as they are."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        options, is_scope = self._reprise_region
        if is_scope:
            with CheckpointScope(options):
                return module_class.forward(self, *args, **kwargs)
        run = types.MethodType(module_class.forward, self)
        return run_region(options, None, run, *args, **kwargs)

    functools.update_wrapper(forward, module_class.forward)
    # A region with options runs in eager mode, also in a compiled model.
    traced: Any = _compile.never_traced(forward)
    traced._torchdynamo_disable = True
    traced._torchdynamo_inline = _compile.traced_forward(module_class)

    def reduce(self: nn.Module, protocol: Any) -> Any:
        # Pickle finds no class by its name that is made here.
        reduced: Any = super(region_class, self).__reduce_ex__(protocol)
        make, (_, *arguments), *rest = reduced
        return _rebuild, (make, module_class, *arguments), *rest

    members = {"forward": forward, "__reduce_ex__": reduce}
    make: Any = type(module_class)
    region_class: type[nn.Module] = make(module_class.__name__, (module_class,), members)
    return region_class


def _rebuild(make: Any, module_class: type[nn.Module], *arguments: Any) -> Any:
    return make(_as_region(module_class), *arguments)  # type: ignore[arg-type]


class CheckpointedModules(list[str]):
    """The names of the modules that apply_checkpointing() has made regions; printed, a table.

    rows: a dict for each of them, with its "path", "class" and "options".
    """

    def __init__(self, rows: list[dict[str, str]]) -> None:
        super().__init__(row["path"] for row in rows)
        self.rows = rows

    def __str__(self) -> str:
        rows = [(row["path"] or "(the model)", row["class"], row["options"]) for row in self.rows]
        return "\n".join(table_lines([("module", "class", "options"), *rows]))


def _is_region(module: nn.Module) -> bool:
    return hasattr(module, "_reprise_region")


def apply_checkpointing(
    model: nn.Module,
    select: Selection,
    *,
    options: CheckpointOptions | None = None,
    scope: bool = False,
    keep_last: int = 0,
    every: int = 1,
    verbose: bool = False,
) -> CheckpointedModules:
    """Makes the chosen modules of `model` regions, in place.

    >>> reprise.apply_checkpointing(model, TransformerBlock)
    >>> reprise.apply_checkpointing(model, "decoder.*.mlp", every=2)
    >>> with_policy = reprise.CheckpointOptions(policy=reprise.policies.save_attention())
    >>> reprise.apply_checkpointing(model, {"*.attention": with_policy, MLP: None, "head": False})

    The classes of the modules are replaced by subclasses of them, as fully_shard() does it:
    parameters, their names, and hooks stay as they are. Hooks of a module run outside of its region.

    Args:
        model: the root. Its path is "".
        select: one of these patterns, a collection of them, or a mapping from patterns to the
            options of their modules, of which the first that matches a module applies (None:
            `options`; False: the module stays as it is):
            a string, which is the path of one module if there is one, and otherwise a path with
            `*`, `?` and `[...]` as in a shell (a `*` crosses dots), the last name of paths, or the
            name of a class;
            a regular expression of re.compile(), for whole paths;
            a class of modules, or a tuple of classes; subclasses count;
            a function of path and module.
        options: of the regions; a region without a name has that of its module.
        scope: whether regions are CheckpointScopes rather than functions.
        keep_last: as many of the last modules that match stay as they are: backward begins with
            them, so that regions would save no memory at the peak of the step.
        every: of the others, the first one of each class is a region, and each `every`-th one of
            the class after it, in the order of named_modules().
        verbose: prints the result.

    Returns:
        The names of the modules: a list, printed as a table with their classes and options. A
        module that is a region already stays as it is, and is not among them.

    Raises:
        ValueError: If a pattern matches no module, with the closest names; functions may. If
            `keep_last` is negative, or `every` is not positive. Nothing has been changed then.
        TypeError: If a pattern or options are of another type.
    """
    if keep_last < 0:
        raise ValueError(f"keep_last must not be negative; received {keep_last}")
    if every < 1:
        raise ValueError(f"every must be positive; received {every}")
    if options is not None:
        check_options(options)
    chosen = choose(model, select, options, _is_region)
    chosen = every_of_class(chosen[: max(0, len(chosen) - keep_last)], every)
    rows = []
    for choice in chosen:
        own = choice.options.copy() if choice.options is not None else CheckpointOptions()
        row = {
            "path": choice.path,
            "class": type(choice.module).__name__,
            "options": describe_options(own, scope),
        }
        own.name = own.name or choice.path
        choice.module._reprise_region = (own, scope)  # type: ignore[assignment]
        choice.module.__class__ = _as_region(type(choice.module))  # type: ignore[arg-type]
        rows.append(row)
    applied = CheckpointedModules(rows)
    if verbose:
        print(applied)
    return applied


def remove_checkpointing(model: nn.Module) -> list[str]:
    """Undoes apply_checkpointing() for all modules of `model`; returns their names.

    Backwards of forwards that have run recompute as before.
    """
    regions = [(name, module) for name, module in model.named_modules() if _is_region(module)]
    for _, module in regions:
        del module._reprise_region
        module.__class__ = type(module).__bases__[0]
    return [name for name, _ in regions]
