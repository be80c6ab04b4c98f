# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Threads, processes and coroutines. What could hang runs in a process of its own."""

import asyncio

import pytest
import reprise
import torch
from helpers import ALL_FORMS, assert_same, block, leaf, plain, run_in_threads, run_script

FORMS_PARAM = pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)


@FORMS_PARAM
def test_two_threads_with_models_of_their_own(form):
    def train(region, seed, results):
        generator = torch.Generator().manual_seed(seed)
        layer = torch.nn.Linear(16, 16)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(16, 16, generator=generator))
            layer.bias.zero_()
        x = torch.randn(8, 16, generator=generator)
        for _ in range(10):
            h = x
            for _ in range(4):
                h = region(lambda t: layer(t).tanh() * t, h)
            h.square().sum().backward()
        results[seed] = [layer.weight.grad, layer.bias.grad]

    expected, got = {}, {}
    for seed in range(3):
        train(plain, seed, expected)
    run_in_threads([lambda seed=seed: train(form, seed, got) for seed in range(3)])
    for seed in range(3):
        assert_same(got[seed], expected[seed])


@FORMS_PARAM
def test_threads_run_backward_over_one_graph(form):
    x = leaf(64)
    torch.manual_seed(0)
    shared = form(block, x * 1)
    results = []

    def backward():
        (gradient,) = torch.autograd.grad(shared.sum() * 2, x, retain_graph=True)
        results.append(gradient)

    torch.manual_seed(0)
    expected = torch.autograd.grad(block(x * 1).sum() * 2, x)[0]
    state = torch.get_rng_state()
    run_in_threads([lambda: [backward() for _ in range(5)]] * 4)
    assert len(results) == 20
    assert all(torch.equal(gradient, expected) for gradient in results)
    assert len(state) == len(torch.get_rng_state())


@FORMS_PARAM
def test_forward_in_one_thread_and_backward_in_another(form):
    x = leaf(16)
    made = []
    torch.manual_seed(0)
    run_in_threads([lambda: made.append(form(block, x))])
    run_in_threads([lambda: made[0].sum().backward()])
    got, x.grad = x.grad, None
    torch.manual_seed(0)
    block(x).sum().backward()
    assert torch.equal(got, x.grad)


DEADLOCK = """
import threading
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t * t
    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        return gradient * 3 * t * t

def function(t):
    for _ in range(3):
        t = Cube.apply(t.sin())
    return t

x = torch.randn(2000, requires_grad=True)
expected = torch.autograd.grad(function(x).sum(), x)[0]
{region}
results = []
def backward():
    for _ in range(30):
        (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        results.append(torch.equal(gradient, expected))
threads = [threading.Thread(target=backward) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(results), all(results), flush=True)
# Without the end of the interpreter, during which torch 2.12 aborts if a thread that has run a
# backward is about to end.
import os
os._exit(0)
"""
REGIONS = {
    "function": "y = reprise.checkpoint(function, x)",
    "nested": "y = reprise.checkpoint(lambda t: reprise.checkpoint(function, t), x)",
    "scope": "with reprise.CheckpointScope():\n    y = function(x)",
    "policy": "y = reprise.checkpoint(function, x, options=reprise.CheckpointOptions("
    "policy=lambda context, op, *args: op is torch.ops.aten.sin.default))",
    "store": "with reprise.store_guard(reprise.stores.disk(min_bytes=1, keep_last=0)):\n"
    "    y = reprise.checkpoint(function, x * 1)",
}


@pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS)
def test_threads_with_an_autograd_function_inside_a_region_do_not_block_each_other(region):
    assert run_script(DEADLOCK.format(region=region), timeout=60).split() == ["90", "True"]


def test_a_store_does_not_wait_for_a_lock_that_forward_holds():
    """Its threads free memory that is Python's, while a Function's save waits for them."""
    output = run_script(
        """
        import numpy
        store = reprise.stores.disk(min_bytes=1, max_in_flight_bytes=1 << 16, keep_last=0)

        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, t, w):
                ctx.save_for_backward(t)
                return (t * w).sum()
            @staticmethod
            def backward(ctx, gradient):
                (t,) = ctx.saved_tensors
                return None, (t * gradient).sum().reshape(1)

        w = torch.ones(1, requires_grad=True)
        options = reprise.CheckpointOptions(input_store=store)
        results = []
        with reprise.store_guard(store):
            for i in range(20):
                t = torch.from_numpy(numpy.full(1 << 15, i, dtype=numpy.float32))
                results.append(Scaled.apply(t, w))
                t = torch.from_numpy(numpy.full(1 << 15, i, dtype=numpy.float32))
                results.append(reprise.checkpoint(Scaled.apply, t, w, options=options))
        store.flush()
        sum(results).backward()
        print(w.grad.item() == 2 * (1 << 15) * sum(range(20)))
        """
    )
    assert output.split() == ["True"]


def test_a_process_ends_while_tensors_are_stored():
    output = run_script(
        """
        import builtins, numpy
        held = builtins.held = []
        w = torch.ones(1, requires_grad=True)
        for store in (reprise.stores.disk(min_bytes=1, keep_last=0), reprise.stores.packed(),
                      reprise.stores.compressed(min_bytes=1, keep_last=0)):
            with reprise.store_guard(store):
                for i in range(10):
                    t = torch.from_numpy(numpy.full(1 << 16, i, dtype=numpy.float32))
                    held.append((t * w).sin())
        held.append(reprise.checkpoint(lambda t: t.sin().exp(), w))
        group, scope = reprise.GraphExecGroup(), reprise.CheckpointScope()
        step = reprise.MemoryBudget(peak_bytes=1 << 30).step()
        for context in (group, step, scope):
            context.__enter__()
        held += [group, step, scope, (w * 2).exp()]
        print("end")
        """
    )
    assert output.split() == ["end"]


def test_a_process_waits_for_stores_that_are_behind_before_it_ends():
    output = run_script(
        """
        import builtins, numpy, time
        held = builtins.held = []
        w = torch.ones(1, requires_grad=True)
        arrays = [numpy.arange(1 << 19, dtype=numpy.float32) for _ in range(6)]
        store = reprise.stores.compressed(
            codec=reprise.stores.CompressionCodec.ZSTANDARD, level=16, max_slowdown=1e9, keep_last=0
        )
        with reprise.store_guard(store):
            while arrays:
                held.append(torch.from_numpy(arrays.pop()) * w)
        print(store.counters()["in_flight_bytes"] > 0)

        class Late:
            sleep = time.sleep

            def __del__(self):  # while the interpreter ends, without its lock
                self.sleep(0.5)

        builtins.late = Late()
        """
    )
    assert output.split() == ["True"]


FORKED = """
import os, signal
torch.set_num_threads(1)
w = torch.ones(1 << 16, requires_grad=True)
store = reprise.stores.{store}
def step():
    with reprise.store_guard(store):
        return reprise.checkpoint(lambda t: t.sin().exp(), w * 1).relu().sum()
def gradient(loss):
    return torch.autograd.grad(loss, w)[0]
expected, before, other = gradient(step()), step(), step() * 2
child = os.fork()
if child == 0:
    signal.alarm(5)
    held = [step() for _ in range(3)]  # would take the place of what the parent writes
    same = [torch.equal(gradient(loss), expected) for loss in (*held, before)]
    os._exit(0 if all(same) else 1)
after = step()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
same = [torch.equal(gradient(loss), expected) for loss in (before, after)]
print(all(same) and torch.equal(gradient(other), 2 * expected))
"""


@pytest.mark.parametrize(
    "store",
    [
        "device()",
        "packed(min_bytes=1)",
        "slab(min_bytes=1)",
        "disk(min_bytes=1, keep_last=0)",
        "compressed(min_bytes=1, keep_last=0)",
    ],
)
def test_a_forked_process_goes_on(store):
    assert run_script(FORKED.format(store=store)).split() == ["0", "True"]


def test_coroutines_take_turns_in_function_regions():
    x = leaf(5)

    async def work(results):
        for _ in range(3):
            y = reprise.checkpoint(lambda t: t.sin().exp(), x)
            await asyncio.sleep(0)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            results.append(gradient)

    async def main(results):
        await asyncio.gather(*(work(results) for _ in range(3)))

    results = []
    asyncio.run(main(results))
    expected = torch.autograd.grad(x.sin().exp().sum(), x)[0]
    assert len(results) == 9
    assert all(torch.equal(gradient, expected) for gradient in results)


def test_scopes_of_coroutines_that_overlap_are_errors_not_wrong():
    x = leaf(5)
    results = []

    async def work(delay):
        with reprise.CheckpointScope():
            h = x.sin()
            for _ in range(delay):
                await asyncio.sleep(0)
            y = h.exp()
        results.append(y)

    async def main():
        await asyncio.gather(work(1), work(3), return_exceptions=True)

    asyncio.run(main())
    expected = torch.autograd.grad(x.sin().exp().sum(), x)[0]
    right = 0
    for y in results:
        try:
            right += torch.equal(torch.autograd.grad(y.sum(), x)[0], expected)
        except reprise.CheckpointError:
            right += 1
    assert right == len(results) == 2
