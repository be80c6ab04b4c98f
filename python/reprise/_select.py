# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Which modules of a model are chosen: by path, pattern, class or function, with options for each."""

from __future__ import annotations

import collections
import dataclasses
import difflib
import fnmatch
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

from torch import nn

from reprise._checkpoint import CheckpointOptions, check_options

__all__ = ["Choice", "choose", "every_of_class"]

# As argument types these say no more than a reader needs: collections are invariant in patterns.
Pattern = (
    str
    | re.Pattern[str]
    | type[nn.Module]
    | tuple[type[nn.Module], ...]
    | Callable[[str, nn.Module], Any]
)
Selection = Pattern | Collection[Any] | Mapping[Any, Any]

_PREFIX = "[apply_checkpointing]"
_MOST_NAMES = 4


@dataclasses.dataclass(frozen=True)
class Choice:
    """A module that is to be a region."""

    path: str
    module: nn.Module
    options: CheckpointOptions | None


class _Modules:
    """The modules of a model, each with all of its paths."""

    def __init__(self, model: nn.Module):
        self.by_path = dict(model.named_modules(remove_duplicate=False))
        self._paths: dict[int, list[str]] = collections.defaultdict(list)
        for path, module in self.by_path.items():
            self._paths[id(module)].append(path)

    def paths(self, module: nn.Module) -> list[str]:
        return self._paths[id(module)]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter({id(module): module for module in self.by_path.values()}.values())

    def hint(self, wanted: str, names: Collection[str]) -> str:
        """Returns the names that are near to one that nothing has, as the end of a message."""
        end = wanted.split(".")[-1]
        same_end = [path for path in self.by_path if path.split(".")[-1] == end]
        paths = [name for name in names if "." in name] if "." in wanted else names
        near = same_end + difflib.get_close_matches(wanted, paths, n=_MOST_NAMES, cutoff=0.5)
        near = list(dict.fromkeys(name for name in near if name))[:_MOST_NAMES]
        return f"the closest names are {', '.join(near)}" if near else "see named_modules()"

    def class_names(self) -> list[str]:
        return list(dict.fromkeys(type(module).__name__ for module in self))

    def names(self) -> list[str]:
        """Returns all that a string can match: paths, their last names, and names of classes."""
        last = [path.split(".")[-1] for path in self.by_path]
        return list(dict.fromkeys([*self.by_path, *last, *self.class_names()]))


class _Rule:
    """One pattern, and the options of the modules that it matches first; False: they stay."""

    def __init__(
        self,
        pattern: Pattern,
        options: CheckpointOptions | Literal[False] | None,
        modules: _Modules,
    ):
        self._pattern = pattern
        self.options = options
        self._modules = modules
        self._matches = self._matcher()

    def matches(self, module: nn.Module) -> bool:
        return bool(self._matches(self._modules.paths(module), module))

    def _matcher(self) -> Callable[[list[str], nn.Module], Any]:
        pattern = self._pattern
        if isinstance(pattern, (type, tuple)):
            return lambda paths, module: isinstance(module, pattern)
        if isinstance(pattern, re.Pattern):
            return lambda paths, module: any(map(pattern.fullmatch, paths))
        if isinstance(pattern, str):
            if pattern in self._modules.by_path:
                exact = self._modules.by_path[pattern]
                return lambda paths, module: module is exact
            return self._matches_name
        if callable(pattern):
            return lambda paths, module: pattern(paths[0], module)
        raise TypeError(
            f"{_PREFIX} modules are chosen by a path, a pattern, a class or a function; received a "
            f"{type(pattern).__name__}: {pattern!r}"
        )

    def _matches_name(self, paths: list[str], module: nn.Module) -> bool:
        pattern = self._pattern
        assert isinstance(pattern, str)
        return type(module).__name__ == pattern or any(
            path.split(".")[-1] == pattern or fnmatch.fnmatchcase(path, pattern) for path in paths
        )

    def check(self) -> None:
        """Raises ValueError for a pattern that matches no module, unless it is a function."""
        pattern, modules = self._pattern, self._modules
        is_function = not isinstance(pattern, (str, re.Pattern, type, tuple))
        if is_function or any(map(self.matches, modules)):
            return
        if isinstance(pattern, str):
            text, shown, names = "no module has this name", repr(pattern), modules.names()
            hint = modules.hint(pattern, names)
        elif isinstance(pattern, re.Pattern):
            text, shown = "no module's path is of this form", repr(pattern.pattern)
            plain = re.sub(r"\\(.)|\W", lambda found: found[1] or "", pattern.pattern)
            hint = modules.hint(plain, list(modules.by_path))
        else:
            text = "no module is of this class"
            classes = pattern if isinstance(pattern, tuple) else (pattern,)
            shown = ", ".join(f"{each.__module__}.{each.__qualname__}" for each in classes)
            hint = modules.hint(classes[0].__name__ if classes else "", modules.class_names())
        raise ValueError(f"{_PREFIX} {text}; received {shown}; {hint} (nothing has been changed)")


def _is_tuple_of_classes(select: Any) -> bool:
    return isinstance(select, tuple) and all(isinstance(each, type) for each in select)


def _rules(select: Selection, options: CheckpointOptions | None, modules: _Modules) -> list[_Rule]:
    if isinstance(select, Mapping):
        for own in select.values():
            if own is not None and own is not False:
                check_options(own)
        return [
            _Rule(pattern, options if own is None else own, modules)
            for pattern, own in select.items()
        ]
    patterns: Collection[Any] = [select]
    if isinstance(select, (list, tuple, set, frozenset)) and not _is_tuple_of_classes(select):
        patterns = select
    return [_Rule(pattern, options, modules) for pattern in patterns]


def choose(
    model: nn.Module,
    select: Selection,
    options: CheckpointOptions | None,
    is_region: Callable[[nn.Module], bool],
) -> list[Choice]:
    """Returns the modules that are chosen and no regions yet, in the order of named_modules()."""
    modules = _Modules(model)
    rules = _rules(select, options, modules)
    for rule in rules:
        rule.check()
    chosen = []
    for path, module in model.named_modules():
        if is_region(module):
            continue
        first = next((rule for rule in rules if rule.matches(module)), None)
        if first is not None and first.options is not False:
            chosen.append(Choice(path, module, first.options))
    return chosen


def every_of_class(chosen: list[Choice], every: int) -> list[Choice]:
    """Returns the first choice of each class, and each `every`-th one after it."""
    counts: collections.Counter[type] = collections.Counter()
    kept = []
    for choice in chosen:
        if counts[type(choice.module)] % every == 0:
            kept.append(choice)
        counts[type(choice.module)] += 1
    return kept
