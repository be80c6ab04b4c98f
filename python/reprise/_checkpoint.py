# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions: checkpoint(), checkpoint_sequential(), CheckpointScope."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch.utils.checkpoint import noop_context_fn

from reprise._native import _C
from reprise._policies import SelectiveCheckpointContexts, as_policy

if TYPE_CHECKING:
    from typing_extensions import Self

    from reprise.policies import AnyPolicy
    from reprise.stores import ActivationStore

__all__ = [
    "CheckpointOptions",
    "CheckpointScope",
    "GraphExecGroup",
    "checkpoint",
    "checkpoint_sequential",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


T = TypeVar("T")
DeterminismCheck = str | Callable[[torch.Tensor], Any]
Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointOptions(_C.CheckpointOptions):
    """How regions behave. Values; one object may serve any number of regions.

    torch.compile traces a region with options, unless they have a policy or an input_store, which
    it has no counterpart of.

    Args:
        name: shown in error messages and reports.
        policy: which results of operators the region saves: one of `reprise.policies`, a list of
            operators, or a function `policy(context, op, *args, **kwargs)`.
        replay: "function" calls the function again; "tape" dispatches forward's operators again
            from a record, only those that are needed, and calls no Python. Scopes always have a
            tape.
        min_input_bytes: runs a function plainly whose tensor arguments have fewer bytes together.
        preserve_rng_state: restores the generators for the recomputation.
        early_stop: ends a recomputation with the last tensor that is wanted.
        determinism_check: "default" or "metadata" (shape, strides, dtype, device, requires-grad,
            and how a tensor was computed), "values" (their bits as well), "none", or a function of
            a tensor whose results, as text, have to be equal.
        watch_operators: records the operators of forward, with the tensors from outside that they
            read and the generators that they draw from: a change of such a tensor is an error then
            if a gradient depends on it. Off, regions of many small operators are faster, read
            tensors from outside as they are in backward, and draw only from generators that are
            known when forward begins.
        debug: records operators with stack traces, for messages.
        allow_external_mutation: accepts that tensors from outside change between forward and
            recomputation, and that parameters are freed meanwhile.
        copied_state_limit_bytes: how much outside memory that the region writes, or that torch has
            not allocated, a region copies when it reads it; what exceeds it must not change before
            backward.
        allow_cache_entry_mutation: accepts writes to results that the policy saves.
        respect_saved_tensors_hooks: passes saved results through the hooks around the region.
        input_store: where the region's inputs live; see `reprise.stores`.
        prefetch_depth: how many earlier regions fetch their tensors when backward enters this one.
        synchronize_boundary: synchronises the accelerator at the region's ends, for exact times.

    Raises:
        ValueError: If a value is unknown, or options contradict each other.
    """

    def __init__(
        self,
        *,
        name: str = "",
        policy: AnyPolicy | None = None,
        replay: Literal["function", "tape"] = "function",
        min_input_bytes: int = 0,
        preserve_rng_state: bool = True,
        early_stop: bool = True,
        determinism_check: DeterminismCheck = "default",
        watch_operators: bool = True,
        debug: bool = False,
        allow_external_mutation: bool = False,
        copied_state_limit_bytes: int = 1 << 20,
        allow_cache_entry_mutation: bool = False,
        respect_saved_tensors_hooks: bool = False,
        input_store: ActivationStore | None = None,
        prefetch_depth: int = 1,
        synchronize_boundary: bool = False,
    ) -> None:
        given = locals()
        super().__init__()
        for option in _VALUES:
            setattr(self, option, given[option])
        super().set_input_store(input_store)
        self._objects = ["input_store"] if input_store is not None else []
        self.is_traceable = not self._objects
        self.set_policy(policy)

    def set_policy(self, policy: AnyPolicy | None) -> None:
        """Replaces the policy; None: none."""
        super().set_policy(policy)
        rest = [name for name in self._objects if name != "policy"]
        self._objects = rest if policy is None else ["policy", *rest]
        self.is_traceable = self.is_traceable and policy is None

    def copy(self) -> CheckpointOptions:
        """Returns a copy, whose attributes can be changed."""
        copied = CheckpointOptions()
        copied.assign(self)
        copied._objects = list(self._objects)
        copied.is_traceable = self.is_traceable
        return copied

    __copy__ = copy

    def __reduce__(self) -> Any:
        if not self.is_traceable or self.determinism_check == "callback":
            raise TypeError(
                "CheckpointOptions with a policy, an input_store or a function cannot be pickled"
            )
        return _options_from, ({name: getattr(self, name) for name in _VALUES},)

    def __deepcopy__(self, memo: Any) -> CheckpointOptions:
        return self.copy()


# The options that are plain values.
_VALUES = tuple(
    name
    for name in inspect.signature(CheckpointOptions).parameters
    if name not in ("policy", "input_store")
)


def _options_from(keywords: dict[str, Any]) -> CheckpointOptions:
    return CheckpointOptions(**keywords)


CheckpointOptions.__module__ = "reprise"


def check_options(options: object) -> None:
    """Raises TypeError for an object of another class, such as a dict."""
    if not isinstance(options, CheckpointOptions):
        raise TypeError(
            "[checkpoint] options have to be a CheckpointOptions; received a "
            f"{type(options).__name__}; write options=reprise.CheckpointOptions(policy=...)"
        )


def describe_options(options: CheckpointOptions, scope: bool) -> str:
    """Returns the options that differ from the defaults, for a table."""
    given = ["scope"] if scope else []
    given += options._objects
    for name in _VALUES:
        value = getattr(options, name)
        if value != getattr(_DEFAULTS, name):
            given.append(f"{name}={value!r}")
    return ", ".join(given) or "defaults"


run_region = _C.run_region
_DEFAULTS = CheckpointOptions()
_torch_checkpoint: Any = torch_checkpoint.checkpoint  # also after patch_torch()


def _make_options(
    preserve_rng_state: bool,
    determinism_check: DeterminismCheck,
    debug: bool,
    early_stop: bool,
    respect_hooks: bool,
) -> CheckpointOptions:
    return CheckpointOptions(
        preserve_rng_state=preserve_rng_state,
        determinism_check=determinism_check,
        debug=debug,
        early_stop=early_stop,
        respect_saved_tensors_hooks=respect_hooks,
    )


_cached_options = functools.lru_cache(maxsize=256)(_make_options)


def _options_for(
    preserve_rng_state: bool, determinism_check: DeterminismCheck, *flags: bool
) -> CheckpointOptions:
    # A function is not cached: the cache would keep alive all that it refers to.
    make = _cached_options if isinstance(determinism_check, str) else _make_options
    return make(preserve_rng_state, determinism_check, *flags)


def _with_policy(
    options: CheckpointOptions, contexts: SelectiveCheckpointContexts
) -> CheckpointOptions:
    options = options.copy()
    options.set_policy(contexts.policy)
    options.allow_cache_entry_mutation |= contexts.allow_cache_entry_mutation
    return options


def checkpoint(
    function: Callable[..., T],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: DeterminismCheck = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    options: CheckpointOptions | None = None,
    **kwargs: Any,
) -> T:
    """Runs `function(*args, **kwargs)` as a region: keeps its inputs, and runs it again in backward.

    The keywords are those of torch.utils.checkpoint.checkpoint, with its meanings and defaults,
    except that `use_reentrant=None` means False here.

    Args:
        function: runs once more in backward.
        args: of the function.
        use_reentrant: True calls torch's function, with its reentrant variant.
        context_fn: returns a pair of context managers, for forward and for recomputations; or the
            pair that create_selective_checkpoint_contexts(), ours or torch's, returns for a policy.
        determinism_check: "default" or "metadata", "none", "values", or a function of a tensor that
            describes it.
        debug: as in CheckpointOptions.
        early_stop: as there.
        preserve_rng_state: as there.
        respect_saved_tensors_hooks: as there.
        options: in place of the keywords above except context_fn.
        kwargs: of the function, all keywords that are not listed.

    Returns:
        The result of the function.

    Raises:
        CheckpointError: In backward, or DeterminismError and MutationError below it. Exceptions of
            the function are passed on as they are.
        TypeError: If options are given both ways.
    """
    if use_reentrant:
        return _torch_checkpoint(  # type: ignore[no-any-return]
            function,
            *args,
            use_reentrant=True,
            context_fn=context_fn,
            debug=debug,
            preserve_rng_state=preserve_rng_state,
            **kwargs,
        )
    has_keywords = (
        determinism_check != "default"
        or debug
        or not early_stop
        or not preserve_rng_state
        or respect_saved_tensors_hooks
    )
    if options is None:
        options = _DEFAULTS
        if has_keywords:
            options = _options_for(
                bool(preserve_rng_state),
                determinism_check,
                bool(debug),
                bool(early_stop),
                bool(respect_saved_tensors_hooks),
            )
    elif has_keywords:
        raise TypeError("checkpoint() takes an options object or keywords, not both")
    contexts = None
    if context_fn is not noop_context_fn:
        given = context_fn()
        policy = as_policy(given)
        if policy is not None:
            options = _with_policy(options, policy)
        else:
            forward_context, recompute_context = given
            contexts = (forward_context, recompute_context)
    return run_region(options, contexts, function, *args, **kwargs)  # type: ignore[no-any-return]


def checkpoint_sequential(
    functions: torch.nn.Sequential | Sequence[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Runs a sequence of modules in `segments` regions of about equal length.

    The last segment is no region, as in torch.utils.checkpoint.checkpoint_sequential: backward
    would recompute it at once.

    Args:
        functions: in their order; each takes what the one before returns.
        segments: how many.
        input: of the first function.
        use_reentrant: as of checkpoint().
        kwargs: keywords of checkpoint().

    Returns:
        The result of the last function.

    Raises:
        ValueError: Unless each segment has a function.
    """
    if isinstance(functions, torch.nn.Sequential):
        functions = list(functions.children())
    if not functions:
        return input
    if not 1 <= segments <= len(functions):
        raise ValueError(
            f"[checkpoint_sequential] a segment needs at least one function; received segments = "
            f"{segments} for {len(functions)} function(s)"
        )

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for function in functions[start:end]:
                value = function(value)
            return value

        return forward

    size = len(functions) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(run(start, end), input, use_reentrant=use_reentrant, **kwargs)
    return run(end, len(functions))(input)


class CheckpointScope(_C.Scope, contextlib.ContextDecorator):
    """A region over a block of code: backward computes again what the block has dropped.

    The code is not called again: its operators are, and only those that backward needs.

    >>> with reprise.CheckpointScope(name="block", policy=reprise.policies.save_matmuls()):
    ...     h = block(h)

    Also a decorator of functions. A scope belongs to the thread that enters it, and can be entered
    again once it has ended.

    Args:
        options: of the region; None: the defaults.
        keywords: instead, those of CheckpointOptions.
    """

    def __init__(self, options: CheckpointOptions | None = None, **keywords: Any) -> None:
        if options is None:
            options = CheckpointOptions(**keywords) if keywords else _DEFAULTS
        elif keywords:
            raise TypeError("CheckpointScope takes an options object or keywords, not both")
        check_options(options)
        self._options = options
        super().__init__(options)

    def _recreate_cm(self) -> Self:
        return type(self)(self._options)

    def __copy__(self) -> Self:
        return self._recreate_cm()

    def __deepcopy__(self, memo: Any) -> Self:  # of a module that holds one
        return self._recreate_cm()


class GraphExecGroup(_C.GraphExecGroup):
    """Makes several backwards share one recomputation for each region.

    >>> with reprise.GraphExecGroup() as group:
    ...     (grad_h,) = torch.autograd.grad(loss, h, retain_graph=True)
    ...     (grad_x,) = torch.autograd.grad(h, x, grad_h)
    >>> group.release()

    `recompute_now()` recomputes the regions whose forward ran while the group was entered, ahead of
    backward. Recomputed tensors stay until `release()`, or until the group is garbage.
    """

    def __enter__(self) -> Self:
        try:
            self.enter()
        except torch_checkpoint.CheckpointError:
            raise RuntimeError("GraphExecGroup contexts cannot be nested.") from None
        return self

    def __exit__(self, *error: object) -> None:
        self.exit()


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """Context manager: whether recomputations of regions that run in it end early."""
    return _C.early_stop(enable)


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Context manager: overrides `debug` of all regions that run in it; None does not."""
    if enabled is None:
        yield
        return
    with _C.debug_mode(enabled):
        yield
