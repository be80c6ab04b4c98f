# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Exact bytes, and no leaks without the garbage collector."""

import contextlib
import functools
import gc
import sys
import weakref

import pytest
import reprise
import torch
from helpers import ALL_FORMS, FUNCTION_FORMS, TAPE_FORMS, block, current_bytes, leaf, memory

FORMS_PARAM = pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
SIZE = 1000
BYTES = 4 * SIZE


@contextlib.contextmanager
def no_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def live():
    """Returns a function that counts the tensors which the garbage collector knows."""

    def count():
        return sum(issubclass(type(entry), torch.Tensor) for entry in gc.get_objects())

    return count


def five_saved(t):
    return t.sin().exp().tanh().sigmoid().exp()


@FORMS_PARAM
def test_after_forward_exactly_the_input_is_kept(form):
    leaf_x = leaf(SIZE)
    before = current_bytes()
    x = leaf_x.clone()
    y = form(five_saved, x)
    del x
    kept = current_bytes() - before - y.nbytes
    if form is ALL_FORMS["scope with policy"]:
        assert kept == 4 * BYTES, "as without a region: x, and the results of exp, tanh, sigmoid"
    else:
        assert kept == BYTES
    y.sum().backward()
    del y
    assert current_bytes() == before + leaf_x.grad.nbytes


@FORMS_PARAM
def test_a_leaf_as_the_input_takes_no_bytes(form):
    x = leaf(SIZE)
    before = current_bytes()
    y = form(lambda t: t.sin().exp().tanh(), x)
    extra = 0 if form is not ALL_FORMS["scope with policy"] else 2 * BYTES
    assert current_bytes() - before - y.nbytes <= extra
    y.sum().backward()


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_arguments_that_backward_does_not_need_are_kept_once(form):
    x = leaf(SIZE)
    before = current_bytes()
    y = form(lambda *args: args[0].sin() + args[1], x.clone(), x.clone())
    assert current_bytes() - before - y.nbytes == 2 * BYTES
    y.sum().backward()
    del y
    assert current_bytes() - before == x.grad.nbytes


@pytest.mark.parametrize("form", TAPE_FORMS.values(), ids=TAPE_FORMS)
def test_a_tape_keeps_what_backward_needs_only(form):
    x = leaf(SIZE)
    before = current_bytes()
    y = form(lambda *args: args[0].sin() + args[1], x.clone(), x.clone())
    assert current_bytes() - before - y.nbytes == BYTES
    y.sum().backward()


@FORMS_PARAM
def test_the_peak_of_backward_is_that_of_one_region(form):
    if form is ALL_FORMS["scope with policy"]:
        pytest.skip("saves the tensors of all regions")
    x = leaf(SIZE)

    def peak(regions):
        h = x.clone()
        for _ in range(regions):
            h = form(five_saved, h)
        before = current_bytes()
        reprise.reset_peak_cpu_memory()
        h.sum().backward()
        return memory().peak_bytes - before

    assert peak(8) <= peak(1)


@FORMS_PARAM
def test_nothing_is_left_after_a_step_without_garbage_collection(form, live):
    x, layer = leaf(8, 8), torch.nn.Linear(8, 8)

    def step():
        h = form(lambda t: torch.dropout(layer(t).tanh(), 0.5, True), x)
        h = form(block, h)
        h.sum().backward()

    def double_step():
        y = form(block, x)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        torch.autograd.grad(gradient.sum(), x)

    def forward_only():
        form(block, form(block, x))

    def failing_step():
        def function(t):
            y = t.sin().exp()
            if reprise.is_recomputing() or form in TAPE_FORMS.values():
                raise KeyError
            return y

        with contextlib.suppress(KeyError):
            form(function, x).sum().backward()

    for run in (step, double_step, forward_only, failing_step):
        run()
        torch.ones(1, requires_grad=True).sum().backward()  # frees what an error has left
        with no_garbage_collection():
            before = (current_bytes(), live())
            for _ in range(3):
                run()
            torch.ones(1, requires_grad=True).sum().backward()
            assert (current_bytes(), live()) == before, run.__name__


@FORMS_PARAM
def test_functions_arguments_and_results_die_by_counting(form):
    class Argument:
        def __init__(self, tensor):
            self.tensor = tensor

        def run(self, other, *, keyword):
            return (self.tensor * other.tensor * keyword.tensor).sin().exp()

    x = leaf(8)
    with no_garbage_collection():
        objects = [Argument(x * i) for i in range(3)]
        alive = [weakref.ref(entry) for entry in objects]
        function = functools.partial(objects[0].run, objects[1])
        y = form(function, keyword=objects[2])
        result = weakref.ref(y)
        del function, objects
        y.sum().backward()
        del y
        assert result() is None
        assert [reference() for reference in alive] == [None] * 3


@FORMS_PARAM
def test_a_graph_that_is_dropped_frees_all(form):
    x = leaf(SIZE)
    with no_garbage_collection():
        before = current_bytes()
        argument = x.clone()
        alive = weakref.ref(argument)
        y = form(five_saved, argument)
        del argument
        del y
        assert alive() is None
        assert current_bytes() == before


def test_objects_whose_end_runs_regions():
    x = leaf(8)
    ends = []

    class Argument:
        def __del__(self):
            with torch.enable_grad():
                y = reprise.checkpoint(lambda t: t.sin().exp(), x)
                ends.append(torch.autograd.grad(y.sum(), x)[0])

    def function(t, argument):
        return t.sin().exp()

    for _ in range(3):
        reprise.checkpoint(function, x, Argument()).sum().backward()
    with reprise.CheckpointScope():
        argument = Argument()
        y = x.sin().exp()
        del argument
    y.sum().backward()
    expected = torch.autograd.grad(x.sin().exp().sum(), x)[0]
    assert len(ends) == 4
    assert all(torch.equal(end, expected) for end in ends)


def test_a_module_that_keeps_its_output_is_freed_after_backward():
    """As with torch's function: before, autograd's graph hides the cycle from the collector."""

    class Keeping(torch.nn.Module):
        def forward(self, t):
            self.kept = t.sin().exp()
            return self.kept

    x = leaf(SIZE)
    before = current_bytes()
    module = Keeping()
    reprise.checkpoint(module, x.clone()).sum().backward()
    x.grad = None
    del module
    gc.collect()
    assert current_bytes() == before


def test_reference_counts_of_what_is_passed():
    x = leaf(8)
    options = reprise.CheckpointOptions(name="counted")
    policy = reprise.create_selective_checkpoint_contexts(["aten::sin"])

    def function(t, *, scale):
        return (t * scale).sin().exp()

    def context_fn():
        return policy

    scale = Scale(2.0)
    watched = (function, context_fn, options, policy, scale, x)

    def counts():
        return [sys.getrefcount(entry) for entry in watched]

    def run():
        for keywords in ({"options": options}, {"context_fn": context_fn}, {}):
            reprise.checkpoint(function, x, scale=scale, **keywords).sum().backward()
            with contextlib.suppress(TypeError):
                reprise.checkpoint(function, x, other=scale, **keywords)

    run()
    before = counts()
    for _ in range(20):
        run()
    grown = [after - b for after, b in zip(counts(), before, strict=True)]
    assert max(grown) < 10, grown  # of 60 and more calls


class Scale(float):
    pass


def test_the_report_of_regions():
    x = leaf(SIZE)
    with reprise.collect_memory_report():
        y = reprise.checkpoint(
            five_saved, x.clone(), options=reprise.CheckpointOptions(name="five")
        )
        y.sum().backward()
    report = reprise.memory_report()
    (region,) = report.regions
    assert (region.name, region.runs, region.replays) == ("five", 1, 1)
    assert region.kept_bytes == BYTES
    assert region.saved_tensors == 5
    assert not region.keeps_more_than_autograd()
    assert "five" in str(report)
    (device,) = report.devices
    assert device.device == "cpu"
    assert device.peak_bytes >= device.current_bytes


def test_a_limit_of_cpu_memory():
    before = current_bytes()
    reprise.set_cpu_memory_limit(before + 3 * BYTES)
    try:
        held = [torch.ones(SIZE) for _ in range(3)]
        with pytest.raises(
            torch.OutOfMemoryError, match=f"the limit is {before + 3 * BYTES} bytes"
        ):
            torch.ones(SIZE)
        del held
        torch.ones(3 * SIZE)
    finally:
        reprise.set_cpu_memory_limit(None)
    torch.ones(4 * SIZE)
    with pytest.raises(ValueError, match="limit_bytes is -1"):
        reprise.set_cpu_memory_limit(-1)
