# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Makes modules of a model regions, in place."""

import functools

from reprise import _compile
from reprise._checkpoint import CheckpointOptions, CheckpointScope
from reprise._native import _C

__all__ = ["apply_checkpointing"]


@functools.cache
def _as_region(module_class):
    """A subclass whose forward is a region. Parameters, names and hooks stay as they are."""

    def forward(self, *args, **kwargs):
        options, is_scope = self._reprise_region
        if is_scope:
            with CheckpointScope(options):
                return module_class.forward(self, *args, **kwargs)
        return _C.run_region(options, None, module_class.forward, self, *args, **kwargs)

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


def _matches(select, name, module):
    if isinstance(select, (type, tuple)):
        return isinstance(module, select)
    if isinstance(select, (list, set, frozenset)):
        return name in select
    return bool(select(name, module))


def apply_checkpointing(model, select, *, options=None, scope=False):
    """Makes the chosen modules of `model` regions, in place.

    >>> reprise.apply_checkpointing(model, TransformerBlock)

    The classes of the modules are replaced by subclasses of them, as fully_shard() does it:
    parameters, their names, and hooks stay as they are. Hooks of a module run outside of its region.

    select: a class of modules, or a tuple of classes; a list of names as in named_modules(); or a
        function of name and module.
    options: a CheckpointOptions; a region without a name has that of its module.
    scope: whether regions are CheckpointScopes rather than functions.

    Returns the names of the modules. A module that is a region already stays as it is, and is not
    among them.
    """
    chosen = [
        (name, module)
        for name, module in model.named_modules()
        if not hasattr(module, "_reprise_region") and _matches(select, name, module)
    ]
    for name, module in chosen:
        own = options.copy() if options is not None else CheckpointOptions()
        own.name = own.name or name
        module._reprise_region = (own, scope)
        module.__class__ = _as_region(type(module))
    return [name for name, _ in chosen]
