# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""CheckpointScope, and guards that are entered and left in ways that a with statement is not."""

import contextlib
import gc
import threading
import weakref

import pytest
import reprise
import torch
from helpers import assert_as_plain, assert_regions_work, block, leaf, plain, run_script
from torch import nn


def same_as_plain(y, x, function=lambda t: t.sin().exp()):
    got = torch.autograd.grad(y.sum(), x)[0]
    return torch.equal(got, torch.autograd.grad(function(x).sum(), x)[0])


def test_as_a_decorator():
    calls = []

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        @reprise.CheckpointScope(name="layer")
        def forward(self, x, scale=1.0):
            """Doc."""
            calls.append(1)
            return torch.dropout(self.linear(x).tanh(), 0.5, True) * scale

    assert Layer.forward.__doc__ == "Doc."
    assert Layer.forward.__name__ == "forward"
    layer, x = Layer(), leaf(3, 4)
    undecorated = Layer.forward.__wrapped__

    def step(region):
        if region is plain:
            return undecorated(layer, undecorated(layer, x), scale=0.5).sum()
        return layer(layer(x), scale=0.5).sum()

    assert_as_plain(step, [x, *layer.parameters()], reprise.CheckpointScope)
    assert len(calls) == 4


def test_a_decorated_function_calls_itself():
    x = leaf(3)

    def recursive(t, depth):
        return t.exp().sin() if depth == 0 else recursive(t.sin(), depth - 1).exp().sin()

    plain_recursive = recursive
    expected = torch.autograd.grad(plain_recursive(x, 5).sum(), x)[0]
    recursive = reprise.CheckpointScope()(recursive)
    assert torch.equal(torch.autograd.grad(recursive(x, 5).sum(), x)[0], expected)


def test_options_and_keywords():
    options = reprise.CheckpointOptions(name="by options")
    x = leaf(3)
    with reprise.collect_memory_report():
        for scope in (
            reprise.CheckpointScope(options),
            reprise.CheckpointScope(name="by keyword"),
            reprise.CheckpointScope(options=options),
        ):
            with scope as entered:
                assert entered is scope
                y = x.sin().exp()
            assert same_as_plain(y, x)
    runs = {region.name: region.runs for region in reprise.memory_report().regions}
    assert runs == {"by options": 2, "by keyword": 1}
    with pytest.raises(TypeError, match="not both"):
        reprise.CheckpointScope(options, name="x")
    with pytest.raises(TypeError, match="no_such_option"):
        reprise.CheckpointScope(no_such_option=1)


def test_entered_again_after_its_end_but_not_before():
    x = leaf(3)
    scope = reprise.CheckpointScope()
    results = []
    for _ in range(3):
        with scope:
            results.append(x.sin().exp())
            with pytest.raises(RuntimeError, match="entered already"):
                scope.__enter__()
    assert all(same_as_plain(y, x) for y in results)


def test_the_block_is_not_run_again_and_may_print_and_count():
    x = leaf(3)
    log = []
    with reprise.CheckpointScope():
        h = x.sin()
        log.append(float(h.detach().sum()))
        y = h.exp() if log[0] > 0 else h.exp() * 1
    log.append("backward")
    assert same_as_plain(y, x)
    assert len(log) == 2


def test_objects_of_the_block_may_go():
    x = leaf(64)
    with reprise.CheckpointScope():
        module = nn.Sequential(nn.Tanh(), nn.Dropout(0.0))
        alive = weakref.ref(module)
        h = x.sin()
        freed = weakref.ref(h)
        y = module(h).exp()
        del module, h
    gc.collect()
    assert alive() is None
    assert freed() is None
    assert same_as_plain(y, x, lambda t: t.sin().tanh().exp())


@pytest.mark.parametrize("leave", ["return", "exception", "break", "exit stack", "generator"])
def test_ways_to_leave(leave):
    x = leaf(3)
    made = []

    def run():
        with contextlib.suppress(KeyError), reprise.CheckpointScope():
            made.append(x.sin().exp())
            if leave == "exception":
                raise KeyError
            return

    def generate():
        with reprise.CheckpointScope():
            made.append(x.sin().exp())
            yield
            raise AssertionError

    if leave == "break":
        for _ in range(3):
            with reprise.CheckpointScope():
                made.append(x.sin().exp())
                break
    elif leave == "exit stack":
        with contextlib.ExitStack() as stack:
            stack.enter_context(reprise.CheckpointScope())
            made.append(x.sin().exp())
    elif leave == "generator":
        generator = generate()
        next(generator)
        generator.close()
    else:
        run()
    assert same_as_plain(made[0], x)
    assert_regions_work()


def test_a_scope_that_is_dropped_while_it_is_entered():
    x = leaf(3)
    scope = reprise.CheckpointScope()
    scope.__enter__()
    y = x.sin().exp()
    del scope
    gc.collect()
    assert same_as_plain(y, x)
    assert_regions_work()


def test_scopes_that_end_in_the_wrong_order():
    x = leaf(3)
    outer, inner = reprise.CheckpointScope(), reprise.CheckpointScope()
    outer.__enter__()
    h = x.sin()
    inner.__enter__()
    y = h.exp()
    outer.__exit__(None, None, None)
    z = y.tan()
    inner.__exit__(None, None, None)
    with pytest.raises(reprise.CheckpointError):
        torch.autograd.grad(z.sum(), x)
    assert_regions_work()


def test_a_scope_that_ends_on_another_thread():
    x = leaf(3)
    scope = reprise.CheckpointScope()
    scope.__enter__()
    y = x.sin().exp()
    thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with pytest.raises(reprise.CheckpointError, match="ended on another thread"):
        torch.autograd.grad(y.sum(), x)
    assert_regions_work()


def test_a_generator_that_holds_a_scope_is_collected_on_another_thread():
    x = leaf(3)

    def generate():
        with reprise.CheckpointScope():
            yield x.sin().exp()

    held = [generate()]
    y = next(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    with pytest.raises(reprise.CheckpointError, match="ended on another thread"):
        torch.autograd.grad(y.sum(), x)
    assert_regions_work()


@pytest.mark.parametrize(
    "code",
    [
        "reprise.name_scope('x')",
        "reprise.store_guard(reprise.stores.packed())",
        "reprise.save_on_cpu()",
        "reprise.set_checkpoint_early_stop(False)",
        "reprise.collect_memory_report()",
        "reprise.MemoryBudget(peak_bytes=1 << 30).step()",
        "reprise.CheckpointScope.__new__(reprise.CheckpointScope)",
        "reprise.CheckpointScope()",
        "reprise.GraphExecGroup()",
    ],
)
def test_left_without_having_been_entered(code):
    """An error or nothing, as with other context managers, but not the end of the process."""
    output = run_script(
        f"""
        guard = {code}
        try:
            guard.__exit__(None, None, None)
        except Exception:
            pass
        print("alive")
        """
    )
    assert output.split() == ["alive"]


def test_guards_are_entered_several_times_at_once():
    x = leaf(600)
    guard = reprise.store_guard(reprise.stores.packed())
    with guard, guard:
        y = block(x)
        with guard:
            y = block(y)
    y.sum().backward()
    scope = reprise.name_scope("again")
    seen = []

    def policy(context, op, *args, **kwargs):
        seen.append(list(context.scopes))
        return False

    with reprise.CheckpointScope(policy=policy), scope:
        y = x.sin()
        with scope:
            y.exp()
    assert seen == [["again"], ["again", "again"]]


def test_grad_mode_off_and_inference_mode():
    x = leaf(3)
    with torch.no_grad(), reprise.CheckpointScope():
        assert not x.sin().requires_grad
    with torch.inference_mode(), reprise.CheckpointScope():
        assert x.sin().is_inference()
    with reprise.CheckpointScope():
        with torch.no_grad():
            h = x.sin()
        y = (h * x).exp()
    assert same_as_plain(y, x, lambda t: (t.detach().sin() * t).exp())
