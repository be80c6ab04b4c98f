# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Graphs that inductor has compiled, as operators of regions, scopes, policies and budgets."""

import functools

import pytest
import reprise
import torch
import torch._dynamo
from helpers import (
    CountingMode,
    assert_same,
    current_bytes,
    memory,
    nested,
    plain,
    scope_with,
    with_inductor,
    with_options,
)
from torch._dynamo.utils import counters

pytestmark = [with_inductor, pytest.mark.usefixtures("fresh_compiler")]

WIDTH = 32
ROWS = 256


class Block(torch.nn.Module):
    def __init__(self, dropout=0.0, has_norm=False):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = torch.nn.Dropout(dropout)
        self.norm = torch.nn.BatchNorm1d(WIDTH) if has_norm else torch.nn.Identity()

    def forward(self, x):
        return x + self.norm(self.down(self.dropout(torch.nn.functional.gelu(self.up(x)))))


def compiled_blocks(count=4, dynamic=None, **options):
    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*(Block(**options) for _ in range(count)))
    for block in blocks:
        block.compile(dynamic=dynamic)
    return blocks


class IgnoredByCompiler(CountingMode):
    """A mode in which the compiler's graphs run, as in modes of torch's own."""

    @classmethod
    def ignore_compile_internals(cls):
        return True


def loss_of(blocks, x):
    return blocks(x).square().mean()


def steps(blocks, forward, inputs):
    """Returns gradients, buffers, loss and the generator's state of a step for each input."""
    results = []
    for seed, x in enumerate(inputs):
        torch.manual_seed(seed)
        blocks.zero_grad()
        loss = forward(loss_of, blocks, x)
        loss.backward()
        results += [p.grad.clone() for p in blocks.parameters()]
        results += [b.clone() for b in blocks.buffers()]
        results += [loss.detach(), torch.get_rng_state()]
    return results


GRAPHS = (torch.ops.reprise.compiled_graph.default, torch.ops.reprise.compiled_graph.writing)
FORMS = {
    "function": reprise.checkpoint,
    "nested": nested,
    "tape": with_options(replay="tape"),
    "scope": scope_with(),
    "function that saves": with_options(policy=reprise.policies.save_operators(*GRAPHS)),
    "function with policy": with_options(policy=["aten::pow.Tensor_Scalar"]),
    "scope that saves": scope_with(policy=reprise.policies.save_operators(*GRAPHS)),
}
BLOCKS = {
    "plain": {},
    "dropout": {"dropout": 0.3},
    "norm": {"has_norm": True},  # the graph writes its statistics
    "dropout and norm": {"dropout": 0.3, "has_norm": True},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("options", BLOCKS.values(), ids=BLOCKS)
def test_bits(options, form):
    inputs = [torch.randn(ROWS, WIDTH) for _ in range(3)]
    expected = steps(compiled_blocks(count=2, **options), plain, inputs)
    torch._dynamo.reset()  # so that the region's first step compiles
    assert_same(steps(compiled_blocks(count=2, **options), form, inputs), expected)


# A size that varies is an argument of the graph, and one of the results that backward reads.
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_dynamic_sizes(form):
    inputs = [torch.randn(rows, WIDTH) for rows in (64, 96, 17, 64)]
    expected = steps(compiled_blocks(count=2, dynamic=True), plain, inputs)
    assert_same(steps(compiled_blocks(count=2, dynamic=True), form, inputs), expected)


def retained(forward, blocks, x):
    before = current_bytes()
    loss = forward(loss_of, blocks, x)
    bytes_retained = current_bytes() - before
    loss.backward()
    return bytes_retained


def test_scopes_retain_none_of_the_graphs_results():
    blocks = compiled_blocks()
    x = torch.randn(ROWS, WIDTH)
    scope = scope_with()
    for forward in (plain, scope):  # compiles
        retained(forward, blocks, x)
    of_activation = ROWS * WIDTH * 4
    assert retained(plain, blocks, x) > 4 * 8 * of_activation
    assert retained(scope, blocks, x) < of_activation


def grown(blocks, x, budget=None):
    blocks.zero_grad()
    before = current_bytes()
    reprise.reset_peak_cpu_memory()
    if budget is None:
        loss_of(blocks, x).backward()
    else:
        with budget.step():
            loss = loss_of(blocks, x)
        loss.backward()
    growth = memory().peak_bytes - before
    return [p.grad.clone() for p in blocks.parameters()], growth


@pytest.mark.parametrize("options", BLOCKS.values(), ids=BLOCKS)
def test_budgets_of_half_of_the_peak(options):
    blocks = compiled_blocks(count=8, **options)
    x = torch.randn(ROWS, WIDTH)
    for _ in range(2):
        torch.manual_seed(1)
        expected, growth = grown(blocks, x)
    blocks.zero_grad()
    budget = reprise.MemoryBudget(peak_bytes=current_bytes() + growth // 2)
    for _ in range(4):
        torch.manual_seed(1)
        gradients, within = grown(blocks, x, budget)
        assert_same(gradients, expected)
        assert within <= growth // 2


# The compiler's guards compare the thread's dispatch keys.
def test_regions_cost_one_compilation():
    blocks = compiled_blocks(count=1)
    x = torch.randn(ROWS, WIDTH)

    def graphs(forward):
        before = counters["stats"]["unique_graphs"]
        for _ in range(3):
            forward(loss_of, blocks, x).backward()
        return counters["stats"]["unique_graphs"] - before

    assert graphs(plain) == 1
    assert graphs(reprise.checkpoint) == 1
    assert graphs(scope_with()) == 0
    assert graphs(plain) == 0


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_modes_see_the_operators_of_a_graph(form):
    blocks = compiled_blocks()
    x = torch.randn(ROWS, WIDTH)

    def operators():
        with IgnoredByCompiler() as mode:
            blocks(x)
        return mode.counts

    form(operators)  # compiles
    plain(operators)
    seen = plain(operators)
    assert seen["aten.addmm.out"] == 8
    assert form(operators) == seen


def test_results_that_are_inputs():
    compiled = torch.compile(lambda x, y: (x, x * y, x.view(-1)))

    def step(region, x, y):
        def body(x, y):
            same, product, flat = compiled(x.sin(), y)
            return (same * product).sum() + flat.cos().sum()

        return region(lambda *args: body(*args), x, y)

    for form in (plain, *FORMS.values()):
        x, y = (torch.linspace(0, 1, 3).exp().requires_grad_() for _ in range(2))
        step(form, x, y).backward()
        if form is plain:
            expected = [x.grad, y.grad]
        assert_same([x.grad, y.grad], expected)


def test_errors_in_a_graph_keep_their_type():
    @torch.library.custom_op("reprise_tests::refuse", mutates_args=())
    def refuse(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("as asked")

    refuse.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: refuse(x.sin()))
    for form in (plain, *FORMS.values()):
        with pytest.raises(KeyError, match="as asked"):
            form(compiled, torch.randn(3))


# A replay may come when the compiler has let go of the graph.
def test_a_graph_lives_as_long_as_a_tape_that_has_it():
    blocks = compiled_blocks()
    x = torch.randn(ROWS, WIDTH)
    expected = steps(blocks, plain, [x])

    def forget(function, *args):
        loss = scope_with()(function, *args)
        torch._dynamo.reset()
        return loss

    assert_same(steps(blocks, forget, [x]), expected)


def test_policies_are_asked_about_graphs():
    blocks = compiled_blocks()
    seen = []

    def policy(context, op, *args, **kwargs):
        seen.append((str(op), [type(argument) for argument in args]))
        return False

    contexts = functools.partial(reprise.create_selective_checkpoint_contexts, policy)
    x = torch.randn(ROWS, WIDTH)
    reprise.checkpoint(loss_of, blocks, x, context_fn=contexts, use_reentrant=False)
    assert seen[:4] == [("reprise.compiled_graph.default", [torch.ScriptObject, list])] * 4
