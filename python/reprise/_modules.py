# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Makes modules of a model regions, in place."""

import difflib
import functools
import types

from reprise import _compile
from reprise._checkpoint import CheckpointOptions, CheckpointScope, check_options
from reprise._native import _C

__all__ = ["apply_checkpointing", "remove_checkpointing"]


@functools.cache
def _as_region(module_class):
    """A subclass whose forward is a region. Parameters, names and hooks stay as they are."""

    def forward(self, *args, **kwargs):
        options, is_scope = self._reprise_region
        if is_scope:
            with CheckpointScope(options):
                return module_class.forward(self, *args, **kwargs)
        run = types.MethodType(module_class.forward, self)
        return _C.run_region(options, None, run, *args, **kwargs)

    functools.update_wrapper(forward, module_class.forward)
    # A region with options runs in eager mode, also in a compiled model.
    _compile.never_traced(forward)._torchdynamo_disable = True

    def reduce(self, protocol):
        # Pickle finds no class by its name that is made here.
        make, (_, *arguments), *rest = super(region_class, self).__reduce_ex__(protocol)
        return _rebuild, (make, module_class, *arguments), *rest

    members = {"forward": forward, "__reduce_ex__": reduce}
    region_class = type(module_class)(module_class.__name__, (module_class,), members)
    return region_class


def _rebuild(make, module_class, *arguments):
    return make(_as_region(module_class), *arguments)


def _predicate(select, model):
    """Returns a function of name and module, for what apply_checkpointing() takes."""
    if isinstance(select, (type, tuple)):
        return lambda name, module: isinstance(module, select)
    if isinstance(select, str):
        select = [select]
    if isinstance(select, (list, set, frozenset)):
        chosen = {id(module) for module in _modules_named(select, model)}
        return lambda name, module: id(module) in chosen
    return select


def _modules_named(names, model):
    known = dict(model.named_modules(remove_duplicate=False))
    for unknown in (name for name in names if name not in known):
        same_end = [name for name in known if name.split(".")[-1] == unknown.split(".")[-1]]
        near = same_end + difflib.get_close_matches(unknown, known, cutoff=0.5)
        hint = f"the closest names are {', '.join(list(dict.fromkeys(near))[:4])}"
        raise ValueError(
            f"[apply_checkpointing] no module has this name; received {unknown!r}; "
            f"{hint if near else 'see named_modules()'} (nothing has been changed)"
        )
    return [known[name] for name in names]


def apply_checkpointing(model, select, *, options=None, scope=False, keep_last=0):
    """Makes the chosen modules of `model` regions, in place.

    >>> reprise.apply_checkpointing(model, TransformerBlock)

    The classes of the modules are replaced by subclasses of them, as fully_shard() does it:
    parameters, their names, and hooks stay as they are. Hooks of a module run outside of its region.

    select: a class of modules, or a tuple of classes; a name as in named_modules(), or a list of
        them; or a function of name and module.
    options: a CheckpointOptions; a region without a name has that of its module.
    scope: whether regions are CheckpointScopes rather than functions.
    keep_last: as many of the last chosen modules stay as they are: backward begins with them, so
        that regions would save no memory at the peak of the step.

    Returns the names of the modules. A module that is a region already stays as it is, and is not
    among them. Raises ValueError for a name that no module has, and for a negative keep_last.
    """
    if keep_last < 0:
        raise ValueError(f"keep_last must not be negative; received {keep_last}")
    if options is not None:
        check_options(options)
    predicate = _predicate(select, model)
    chosen = [
        (name, module)
        for name, module in model.named_modules()
        if not hasattr(module, "_reprise_region") and predicate(name, module)
    ]
    chosen = chosen[: max(0, len(chosen) - keep_last)]
    for name, module in chosen:
        own = options.copy() if options is not None else CheckpointOptions()
        own.name = own.name or name
        module._reprise_region = (own, scope)
        module.__class__ = _as_region(type(module))
    return [name for name, _ in chosen]


def remove_checkpointing(model):
    """Undoes apply_checkpointing() for all modules of `model`; returns their names.

    Backwards of forwards that have run recompute as before.
    """
    regions = [
        (name, module)
        for name, module in model.named_modules()
        if hasattr(module, "_reprise_region")
    ]
    for _, module in regions:
        del module._reprise_region
        module.__class__ = type(module).__bases__[0]
    return [name for name, _ in regions]
