# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Changes to modules of torch that are not imported here, as some take a second.

A module that is there already is changed at once, and another when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["when_imported"]

_CHANGES: dict[str, Callable[[ModuleType], None]] = {}


class _Finder:
    """In sys.meta_path: calls what is to be called once a module has been imported.

    A spec that is only asked for, as by importlib.util.find_spec(), imports nothing: the next one
    calls it.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        change = _CHANGES.get(name)
        if change is None:
            return None
        spec = self._found_by_others(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec

    def _found_by_others(self, name: str, path: Any, target: Any) -> Any:
        for finder in sys.meta_path:
            find: Any = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None


def when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Calls `change(module)` for the module of that name, now or when it has been imported."""
    if not _CHANGES:
        sys.meta_path.insert(0, _Finder())
    _CHANGES[name] = change
    if name in sys.modules:
        change(sys.modules[name])
