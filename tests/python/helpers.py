# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What tests share: forms of regions, the plain run to compare with, counters of operators."""

import collections
import functools
import os
import shutil
import subprocess
import sys
import textwrap
import threading

import pytest
import reprise
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

with_inductor = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="inductor needs a C++ compiler"
)


def in_scope(function, *args, **kwargs):
    with reprise.CheckpointScope():
        return function(*args, **kwargs)


def nested(function, *args, **kwargs):
    inner = functools.partial(reprise.checkpoint, function)
    return reprise.checkpoint(inner, *args, **kwargs)


def with_options(**options):
    options = reprise.CheckpointOptions(**options)
    return lambda function, *args, **kwargs: reprise.checkpoint(
        function, *args, options=options, **kwargs
    )


def scope_with(**options):
    def run(function, *args, **kwargs):
        with reprise.CheckpointScope(**options):
            return function(*args, **kwargs)

    return run


# Each runs function(*args, **kwargs) as a region.
FORMS = {
    "function": reprise.checkpoint,
    "to the end": with_options(early_stop=False),
    "values": with_options(determinism_check="values"),
    "nested": nested,
    "tape": with_options(replay="tape"),
    "whole tape": with_options(replay="tape", early_stop=False),
    "scope": in_scope,
}
FUNCTION_FORMS = {name: FORMS[name] for name in ("function", "to the end", "values", "nested")}
TAPE_FORMS = {name: FORMS[name] for name in ("tape", "whole tape", "scope")}
ALL_FORMS = {
    **FORMS,
    "policy": with_options(policy=["aten::mul.Tensor"]),
    "scope with policy": scope_with(policy=reprise.policies.save_everything()),
}


def block(t):
    return torch.dropout(t.sin() * t, 0.5, True).exp()


def plain(function, *args, **kwargs):
    return function(*args, **kwargs)


def leaf(*shape):
    return torch.randn(shape, requires_grad=True)


def run_step(step, leaves, seed=0):
    """Returns the loss, the gradients of `leaves`, and the generator's state after one step."""
    torch.manual_seed(seed)
    for leaf in leaves:
        leaf.grad = None
    loss = step()
    loss.backward()
    gradients = [leaf.grad.clone() if leaf.grad is not None else None for leaf in leaves]
    return [loss.detach().clone(), *gradients, torch.get_rng_state()]


def assert_same(got, expected):
    """Compares what run_step() returns, bit by bit."""
    assert len(got) == len(expected)
    for i, (one, other) in enumerate(zip(got, expected, strict=True)):
        if one is None or other is None:
            assert one is other, f"result {i} is there in one run only"
        else:
            assert torch.equal(one, other), f"result {i} differs"


def assert_as_plain(step, leaves, *forms):
    """Compares step(form) with step(plain): loss, gradients, and the generator afterwards."""
    expected = run_step(lambda: step(plain), leaves)
    for form in forms:
        assert_same(run_step(lambda form=form: step(form), leaves), expected)


def assert_regions_work():
    """For after an error: each form gives the bits of the plain run, dropout included."""
    x = leaf(3)

    def step(region):
        return region(lambda t: torch.dropout(t.sin(), 0.5, True).exp(), x).sum()

    assert_as_plain(step, [x], *FORMS.values())


TORCH_VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
# Dispatch modes and classes of tensors see an operator before a region does, and even if the region
# supplies its result.
MODES_COME_FIRST = TORCH_VERSION >= (2, 13)


class CountingMode(TorchDispatchMode):
    """Counts the operators below autograd, by name."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


class Boxed(torch.Tensor):
    """Holds a tensor, and does to it what is done to the box. Counts matrix multiplications."""

    multiplications = 0

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Boxed.multiplications += func is torch.ops.aten.mm.default
        args, kwargs = pytree.tree_map_only(Boxed, lambda b: b.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, cls, func(*args, **kwargs))


def operators_of(function):
    """Returns the result of the call, and the counts of its operators."""
    with CountingMode() as mode:
        result = function()
    return result, mode.counts


def current_bytes():
    """Returns the bytes of CPU tensors in use."""
    return memory().current_bytes


def memory():
    (cpu,) = [entry for entry in reprise.memory_report().devices if entry.device == "cpu"]
    return cpu


def run_in_threads(functions):
    """Runs each in a thread of its own, and raises the first exception here."""
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def run_script(script, timeout=60):
    """Runs code in a process of its own, for what may end or hang it; returns its output."""
    script = "import torch\nimport reprise\n" + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
