# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""keep(): a part of a region's code runs once, and gradients are those without a region."""

import gc
import random

import pytest
import reprise
import torch
from helpers import current_bytes
from torch import nn

ROWS, WIDTH = 16, 8


class Counted(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x, scale):
        Counted.calls += 1
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x.sin() * scale

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * ctx.scale, None


def counted(x, scale=2.0):
    return Counted.apply(x, scale)


def drawing(x):
    Counted.calls += 1
    return nn.functional.dropout(x, 0.5)


def structured(x):
    Counted.calls += 1
    return {"pair": (x.exp(), [x, 3]), "none": None, "plain": x.detach() + 1}


def with_views(x):
    Counted.calls += 1
    return x[: ROWS // 2], x.t()


def of_dict(x):
    result = reprise.keep(structured, x)
    (first, (second, three)), plain = result["pair"], result["plain"]
    return (first * second).tanh() * three + plain.sin() * second


def nested(x):
    inner = reprise.checkpoint(lambda t: reprise.keep(counted, t.cos()).exp(), x.sin())
    return reprise.keep(counted, inner, 0.5).tanh()


def region_inside(x):
    def part(t):
        Counted.calls += 1
        return reprise.checkpoint(lambda u: u.sin().exp(), t).tanh()

    return reprise.keep(part, x.cos()).sin()


def keep_inside(x):
    def part(t):
        return reprise.keep(counted, t.sin()).exp()

    return reprise.keep(part, x.cos()).sin()


def view_written_after(x):
    y = reprise.keep(counted, x)
    y = y.clone()
    y.mul_(2)
    return y.sin() * y


PROGRAMS = {
    "a Function": lambda x: reprise.keep(counted, x.exp()).tanh() * x.sin(),
    "keywords": lambda x: reprise.keep(counted, x.exp(), scale=3.0, name="mine").tanh(),
    "twice": lambda x: reprise.keep(counted, reprise.keep(counted, x).exp()).sin(),
    "random numbers": lambda x: nn.functional.dropout(
        reprise.keep(drawing, nn.functional.dropout(x, 0.3).sin()).exp(), 0.4
    ).tanh(),
    "structures": of_dict,
    "views": lambda x: torch.mm(*reprise.keep(with_views, x.sin())).exp(),
    "nested": nested,
    "a region inside": region_inside,
    "keep inside": keep_inside,
    "a clone is written": view_written_after,
    "no_grad": lambda x: torch.no_grad()(lambda: reprise.keep(counted, x))() * x.sin(),
    "is the argument": lambda x: reprise.keep(lambda t: (t, counted(t)), x.sin())[0].exp(),
}


def function(program, x):
    return reprise.checkpoint(program, x)


def with_policy(program, x):
    options = reprise.CheckpointOptions(policy=reprise.policies.save_matmuls())
    return reprise.checkpoint(program, x, options=options)


def unwatched(program, x):
    return reprise.checkpoint(program, x, options=reprise.CheckpointOptions(watch_operators=False))


def in_debug_mode(program, x):
    return reprise.checkpoint(program, x, debug=True, determinism_check="values")


def to_the_end(program, x):
    return reprise.checkpoint(program, x, early_stop=False)


def in_scope(program, x):
    with reprise.CheckpointScope():
        return program(x)


def in_budget(program, x):
    with reprise.MemoryBudget(max_overhead=0.5).step():
        return program(x)


def twice(program, x):
    return reprise.checkpoint(lambda t: reprise.checkpoint(program, t.cos()).sin(), x)


FORMS = {
    each.__name__: each
    for each in (function, with_policy, unwatched, in_debug_mode, to_the_end, in_scope, twice)
}


def run(form, program, x, seed=1):
    torch.manual_seed(seed)
    x = x.clone().requires_grad_()
    y = form(program, x)
    calls = Counted.calls
    y.square().sum().backward(retain_graph=True)
    y.sum().backward()
    return [y.detach(), x.grad, torch.rand(2)], Counted.calls - calls


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_and_calls(name, form):
    program, x = PROGRAMS[name], torch.randn(ROWS, WIDTH)
    base = (lambda program, x: program(x.cos()).sin()) if form == "twice" else lambda p, x: p(x)
    expected, _ = run(base, program, x)
    actual, calls_again = run(FORMS[form], program, x)
    assert all(map(torch.equal, expected, actual))
    assert calls_again == 0


def random_program(seed):
    choices = random.Random(seed)
    steps = [
        choices.choice(["keep", "sin", "dropout", "mm", "region", "drawing"]) for _ in range(6)
    ]

    def program(x):
        weight = torch.linspace(-1, 1, WIDTH * WIDTH).view(WIDTH, WIDTH)
        for step in steps:
            if step == "keep":
                x = reprise.keep(counted, x, name="f")
            elif step == "sin":
                x = x.sin() * x
            elif step == "dropout":
                x = nn.functional.dropout(x, 0.5)
            elif step == "mm":
                x = (x @ weight).tanh()
            elif step == "region":
                x = reprise.checkpoint(lambda t: reprise.keep(counted, t.cos()).exp(), x)
            else:
                x = reprise.keep(drawing, x)
        return x

    return program


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    program, x = random_program(seed), torch.randn(ROWS, WIDTH)
    expected, _ = run(lambda p, x: p(x), program, x)
    for form in FORMS.values():
        if form is twice:
            continue
        actual, calls_again = run(form, program, x)
        assert all(map(torch.equal, expected, actual))
        assert calls_again == 0


def test_budgets_keep():
    program, x = PROGRAMS["a Function"], torch.randn(ROWS, WIDTH)
    budget = reprise.MemoryBudget(max_overhead=0.5)
    expected, _ = run(lambda p, x: p(x), program, x)
    for _ in range(3):
        with budget.step():
            actual, calls_again = run(lambda p, x: p(x), program, x)
        assert all(map(torch.equal, expected, actual))
        assert calls_again == 0


def test_parameters_come_back_as_they_are():
    weight, seen = nn.Parameter(torch.randn(WIDTH)), []

    def program(x):
        y = reprise.keep(lambda: weight)
        seen.append(y)
        return (x * y).sin()

    reprise.checkpoint(program, torch.randn(ROWS, WIDTH)).sum().backward()
    assert len(seen) == 2 and all(each is weight for each in seen)
    assert weight.grad is not None


def test_errors_of_the_function_pass():
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        reprise.checkpoint(lambda x: reprise.keep(fails, x), torch.ones(2, requires_grad=True))


def test_writes_to_arguments_are_refused():
    with pytest.raises(
        reprise.MutationError, match=r"keep\('relu_'\) writes to an argument in place"
    ):
        reprise.checkpoint(
            lambda x: reprise.keep(torch.relu_, x.sin(), name="relu_").exp(),
            torch.ones(2, requires_grad=True),
        )


def test_writes_to_results_are_refused():
    y = reprise.checkpoint(
        lambda x: reprise.keep(counted, x).mul_(2).exp(), torch.ones(2, requires_grad=True)
    )
    with pytest.raises(reprise.MutationError, match="a result has been written in place since"):
        y.sum().backward()


@pytest.mark.parametrize("more", [1, -1])
def test_other_numbers_of_calls_are_errors(more):
    def program(x):
        count = 2 + (more if reprise.is_recomputing() else 0)
        for i in range(count):
            x = reprise.keep(counted, x, name=f"call {i}").exp()
        return x

    y = reprise.checkpoint(program, torch.ones(2, requires_grad=True), early_stop=False)
    message = r"keep\('call 2'\) is call 3 of keep\(\) in the rec" if more > 0 else "fewer|number"
    with pytest.raises(reprise.DeterminismError, match=message):
        y.sum().backward()


def test_other_names_are_errors():
    def program(x):
        return reprise.keep(counted, x, name="b" if reprise.is_recomputing() else "a").exp().sin()

    y = reprise.checkpoint(program, torch.ones(2, requires_grad=True))
    with pytest.raises(reprise.DeterminismError, match=r"in forward that was keep\('a'\)"):
        y.sum().backward()


def test_backward_inside_goes_through_forward_alone():
    def program(x):
        y = reprise.keep(counted, x)
        (gradient,) = torch.autograd.grad(y.exp().sum(), x, retain_graph=True)
        return (y * gradient).sin()

    y = reprise.checkpoint(program, torch.ones(2, requires_grad=True))
    with pytest.raises(reprise.CheckpointError, match="there is no graph of that function"):
        y.sum().backward()


def test_bytes_are_in_the_bill_and_freed():
    x = torch.randn(256, 64, requires_grad=True)
    y = reprise.checkpoint(lambda t: reprise.keep(counted, t.exp(), name="mine").tanh().sin(), x)
    gc.collect()
    bill = reprise.saved_tensors(y)
    kept = [row for row in bill.rows if row["kind"] == "kept of a region"]
    assert [(row["operator"], row["bytes"]) for row in kept] == [("mine", 256 * 64 * 4)]
    own, before = y.untyped_storage().nbytes(), current_bytes()
    total = bill.total_bytes
    del y
    gc.collect()
    assert before - current_bytes() == total + own
