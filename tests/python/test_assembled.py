# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Tensors of classes that consist of other tensors, on tapes: bits, bytes, collectives."""

import functools
import random

import pytest
import reprise
import torch
from framework_ranks import run_on_ranks
from helpers import (
    Boxed,
    assert_same,
    current_bytes,
    in_scope,
    memory,
    operators_of,
    plain,
    scope_with,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.two_tensor import TwoTensor

ROWS = WIDTH = 32
BYTES = ROWS * WIDTH * 4
ROW_COUNTS = (5, 10, 13, 4)
OFFSET_BYTES = 8 * (len(ROW_COUNTS) + 1)


def two(tensor):
    return TwoTensor(tensor.clone(), tensor * 0.5)


def jagged(tensor):
    return torch.nested.nested_tensor(list(tensor.split(ROW_COUNTS)), layout=torch.jagged)


KINDS = {
    "dense": lambda mesh: (torch.clone, torch.clone),
    "two": lambda mesh: (two, two),
    "jagged": lambda mesh: (jagged, torch.clone),
    "dtensor": lambda mesh: (
        lambda t: distribute_tensor(t, mesh, [Shard(0)]),
        lambda t: distribute_tensor(t, mesh, [Replicate()]),
    ),
}
KINDS_PARAM = pytest.mark.parametrize("kind", KINDS)


def dense_parts(tensor):
    """Returns the elements of a tensor of any kind, as plain tensors."""
    if isinstance(tensor, TwoTensor):
        return [tensor.a.clone(), tensor.b.clone()]
    if isinstance(tensor, DTensor):
        return [tensor.to_local().detach().clone()]
    return [tensor.values().detach().clone() if tensor.is_nested else tensor.clone()]


class Case:
    """An input and parameters of one kind, and a step of a function over them."""

    def __init__(self, kind, mesh, seed=0):
        torch.manual_seed(seed)
        make_input, make_parameter = KINDS[kind](mesh)
        self.x = make_input(torch.randn(ROWS, WIDTH))
        self.weight = make_parameter(torch.randn(WIDTH, WIDTH) * 0.2).requires_grad_()
        self.bias = make_parameter(torch.randn(WIDTH)).requires_grad_()

    def run(self, form, function):
        self.y = form(function, self.x, self.weight, self.bias)

    def backward(self):
        y, self.y = self.y, None
        (y.values() if y.is_nested else y).square().sum().backward()

    def gradients(self):
        return [part for p in (self.weight, self.bias) for part in dense_parts(p.grad)]


def gradients(kind, mesh, form, function, seed=0):
    case = Case(kind, mesh, seed)
    case.run(form, function)
    case.backward()
    return case.gradients()


def within_a_budget(growth):
    """A form that runs a step in a budget of so many bytes beyond those in use."""

    def run(function, *args):
        run.budget = reprise.MemoryBudget(peak_bytes=current_bytes() + growth)  # for backward, too
        with run.budget.step():
            return function(*args)

    return run


def chain(x, weight, bias, rounds=6):
    for _ in range(rounds):
        x = torch.nn.functional.linear(x, weight, bias)
        x = torch.nn.functional.gelu(x.sin()) * x
    return x


# Of each round, plain autograd saves the inputs of five operators; a scope the step's input.
@KINDS_PARAM
def test_a_scope_retains_its_inputs_alone(kind, mesh):
    expected = gradients(kind, mesh, plain, chain)
    assert_same(gradients(kind, mesh, in_scope, chain), expected)

    def retained(form):
        case = Case(kind, mesh)
        before = current_bytes()
        case.run(form, chain)
        return current_bytes() - before

    size = 2 * BYTES if kind == "two" else BYTES
    assert retained(in_scope) == size  # the result
    assert retained(plain) >= 24 * size


def growth_of_step(kind, mesh, form, function, seed=0):
    """Returns the gradients of a step with warm caches, and its peak beyond the bytes before it."""
    for _ in range(2):
        case = Case(kind, mesh, seed)
        before = current_bytes()
        reprise.reset_peak_cpu_memory()
        case.run(form, function)
        case.backward()
        growth = memory().peak_bytes - before
    return case.gradients(), growth


@KINDS_PARAM
def test_a_budget_of_half_the_peak_is_kept(kind, mesh):
    expected, growth = growth_of_step(kind, mesh, plain, chain)
    found, grown = growth_of_step(kind, mesh, within_a_budget(growth // 2), chain)
    assert_same(found, expected)
    assert grown <= growth // 2


def square(kind, t):
    """Returns t, or of a jagged tensor a view of the same shape."""
    return t.unsqueeze(-1).squeeze(-1) if kind == "jagged" else t.t()


def written(x, other):
    x = x.clone()
    x.mul_(0.5)
    x.add_(other)
    return x


def random_program(kind, seed):
    """Returns a function of random operators, views and writes."""
    steps = random.Random(seed)
    pieces = [
        lambda t, w, b, old: t.sin(),
        lambda t, w, b, old: (t * 0.1).exp(),
        lambda t, w, b, old: torch.nn.functional.gelu(t),
        lambda t, w, b, old: t * old,
        lambda t, w, b, old: t + old.detach(),
        lambda t, w, b, old: torch.nn.functional.linear(t, w, b).tanh(),
        lambda t, w, b, old: square(kind, square(kind, t).cos() * 0.5),
        lambda t, w, b, old: square(kind, square(kind, t)).sigmoid(),
        lambda t, w, b, old: written(t, old),
        lambda t, w, b, old: t.clone().sin_() * t,
        lambda t, w, b, old: t * t.detach(),
        lambda t, w, b, old: torch.nn.functional.linear(square(kind, square(kind, t)), w).sin(),
    ]
    chosen = [steps.choice(pieces) for _ in range(14)]

    def function(x, weight, bias):
        earlier = [x]
        for piece in chosen:
            old = earlier[len(earlier) // 2]
            earlier.append(piece(earlier[-1], weight, bias, old))
        return torch.nn.functional.linear(earlier[-1], weight, bias)

    return function


RANDOM_FORMS = {
    "scope": in_scope,
    "scope, policy": scope_with(policy=reprise.policies.save_matmuls()),
    "scope in a region": lambda f, *a: reprise.checkpoint(functools.partial(in_scope, f), *a),
    "scope in a scope": lambda f, *a: in_scope(in_scope, f, *a),
    "region in a scope": lambda f, *a: in_scope(reprise.checkpoint, f, *a),
    "roomy budget": within_a_budget(1 << 30),
}


@KINDS_PARAM
@pytest.mark.parametrize("form", RANDOM_FORMS.values(), ids=RANDOM_FORMS)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(kind, form, seed, mesh):
    program = random_program(kind, seed)
    expected = gradients(kind, mesh, plain, program, seed)
    assert_same(gradients(kind, mesh, form, program, seed), expected)


def smallest_share(kind, mesh, program, seed):
    """Returns the smallest tenth of the plain step's peak in which the step fits, as plain."""
    expected, growth = growth_of_step(kind, mesh, plain, program, seed)
    for share in (0.5, 0.6, 0.7, 0.8, 0.9):
        try:
            form = within_a_budget(int(growth * share))
            found, grown = growth_of_step(kind, mesh, form, program, seed)
        except reprise.BudgetExceededError:
            continue
        assert_same(found, expected)
        assert grown <= growth * share
        return share
    return 1.0


@pytest.mark.parametrize("kind", ["two", "jagged", "dtensor"])
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_fit_into_the_budgets_of_dense_ones(kind, seed, mesh):
    dense = smallest_share("dense", mesh, random_program("dense", seed), seed)
    assert smallest_share(kind, mesh, random_program(kind, seed), seed) <= dense + 0.1


def test_an_operator_of_the_class_runs_on_its_parts_alone(mesh):
    """Backward of a scope computes sin and exp of both parts again, without the class's code."""
    calls = []

    class Counted(TwoTensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_dispatch__(func, types, args, kwargs)

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Counted(inner["a"], inner["b"])

    def counted(form):
        x = Counted(torch.randn(4, 4), torch.randn(4, 4)).requires_grad_()
        y = form(lambda t: t.sin().exp().sin(), x).sum()
        calls.clear()
        y.backward()
        assert type(x.grad) is Counted
        return [call for call in calls if "detach" not in str(call)]

    assert counted(in_scope) == counted(plain)


class Heir(TwoTensor):
    """Inherits a method that makes a tensor of another class."""


def test_a_class_that_is_made_as_another_one_is_retained():
    found = []

    class Looking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t.clone()

        @staticmethod
        def backward(ctx, gradient):
            found.append(type(ctx.saved_tensors[0]))
            return gradient

    class Own(Heir):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_dispatch__(func, types, args, kwargs)
            return Own(result.a, result.b) if type(result) is TwoTensor else result

    x = Own(torch.randn(4, 4), torch.randn(4, 4)).requires_grad_()
    in_scope(lambda t: Looking.apply(t.sin()), x).sum().backward()
    assert found == [Own]


# As of dense tensors: a scope computes with the contents at the time of saving.
@pytest.mark.parametrize("kind", ["dense", "two", "dtensor"])
def test_a_write_after_saving(kind, mesh):
    def function(writes, x, weight, bias):
        h = torch.nn.functional.linear(x, weight, bias)
        product = h * h.sin()
        if writes:
            h.mul_(2)
        return product

    expected = gradients(kind, mesh, plain, functools.partial(function, False))
    found = gradients(kind, mesh, in_scope, functools.partial(function, True))
    assert_same(found, expected)


def test_a_write_that_autograd_does_not_count(mesh):
    """rrelu saves its noise, and fills it afterwards."""

    def function(x, weight, bias):
        h = torch.nn.functional.rrelu(x @ weight + bias, training=True)
        return h.sin() * h

    for kind in ("dense", "two"):
        expected = gradients(kind, mesh, plain, function)
        assert_same(gradients(kind, mesh, in_scope, function), expected)


@pytest.mark.parametrize("kind", ["two", "dtensor"])
def test_a_parameter_written_before_backward_is_an_error(kind, mesh):
    case = Case(kind, mesh)
    case.run(in_scope, chain)
    with torch.no_grad():
        case.weight.mul_(1)  # the same bytes
    with pytest.raises(reprise.MutationError, match="at version 0, now at version 1"):
        case.backward()


@pytest.mark.parametrize("form", [in_scope, within_a_budget(1 << 30)], ids=["scope", "budget"])
def test_a_class_without_parts(form):
    def gradient(form):
        torch.manual_seed(0)
        x = Boxed(torch.randn(16, 16)).requires_grad_()
        form(lambda t: (t.sin().t() @ t.exp()).sin(), x).sum().backward()
        return x.grad.inner

    assert torch.equal(gradient(form), gradient(plain))


def test_views_of_square_matrices(mesh):
    """Where a class has a view lie in the memory of its base, the two differ all the same."""
    for kind in ("two", "dtensor"):
        for form in (in_scope, RANDOM_FORMS["scope in a region"], RANDOM_FORMS["scope in a scope"]):
            assert_same(*(gradients(kind, mesh, each, twice_transposed) for each in (form, plain)))


def twice_transposed(x, weight, bias):
    h = torch.nn.functional.linear(x, weight, bias).sin()
    return ((h.t() @ h).sin() @ weight.t()) * weight + bias


def distributed_chain(rank):
    reprise.install_cpu_memory_counter()
    mesh = init_device_mesh("cpu", (2,))

    def step(form):
        torch.manual_seed(1)
        x = distribute_tensor(torch.randn(ROWS, WIDTH), mesh, [Shard(0)])
        up = distribute_tensor(torch.randn(WIDTH, WIDTH) * 0.2, mesh, [Replicate()])
        up.requires_grad_()

        def function(t):
            for _ in range(4):
                t = torch.nn.functional.gelu(t @ up).sin()
                t = t.redistribute(mesh, [Replicate()]).exp().redistribute(mesh, [Shard(0)])
            return t

        before = current_bytes()
        y = form(function, x)
        held = current_bytes() - before
        loss = y.sum()
        _, counts = operators_of(loss.backward)
        del y, loss
        return (
            up.grad.full_tensor(),
            held,
            counts["_c10d_functional.all_gather_into_tensor.default"],
        )

    step(plain)
    expected, held, gathered = step(plain)
    found, kept, gathered_again = step(in_scope)
    assert torch.equal(found, expected)
    assert kept <= held // 8
    assert (gathered, gathered_again) == (3, 3 + 4)  # those of forward, once


def test_two_ranks():
    run_on_ranks(distributed_chain)
