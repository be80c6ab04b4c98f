# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A recomputation draws the random numbers of forward, and leaves the generators as backward did."""

import random
import warnings

import pytest
import reprise
import torch
from helpers import (
    FORMS,
    FUNCTION_FORMS,
    assert_as_plain,
    assert_same,
    leaf,
    plain,
    run_script,
    run_step,
    scope_with,
    with_options,
)
from torch import nn

NAME = "model-parallel-rng"
POLICIES = {
    "everything": reprise.policies.save_everything(),
    "nothing": reprise.policies.save_nothing(),
    "dropout": reprise.policies.save_operators("aten::native_dropout"),
    "random and matmuls": reprise.policies.save_operators("aten::bernoulli_.float", "aten::mm"),
    "every second call": lambda: EverySecond(),
    "function": lambda: lambda context, op, *args, **kwargs: "dropout" in str(op),
    "offload": reprise.policies.offload(reprise.policies.save_everything()),
}


class EverySecond:
    def __init__(self):
        self.calls = 0

    def __call__(self, context, op, *args, **kwargs):
        self.calls += 1
        return self.calls % 2 == 0


def policy_of(name):
    policy = POLICIES[name]
    return policy() if callable(policy) else policy


class Noisy(nn.Module):
    """Draws in several ways, before and after operators whose results a policy may save."""

    def __init__(self, width=8):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        h = nn.functional.dropout(self.up(x), 0.3)
        h = h * torch.rand_like(h) + torch.randn(h.shape)
        h = nn.functional.dropout(self.down(h.tanh()), 0.5)
        h = h * torch.bernoulli(torch.full_like(h, 0.5))
        order = torch.randperm(x.shape[0])
        return (x + nn.functional.rrelu(h, training=True))[order].sin()


def step_of(model, x):
    def step(region):
        h = x
        for _ in range(2):
            h = region(model, h)
            h = h + torch.rand_like(h)
        return h.square().mean()

    return step


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_bits_and_generator_of_each_form(form):
    model, x = Noisy(), leaf(4, 8)
    assert_as_plain(step_of(model, x), [x, *model.parameters()], form)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("replay", ["function", "tape"])
def test_bits_and_generator_under_each_policy(name, replay):
    model, x = Noisy(), leaf(4, 8)
    form = with_options(policy=policy_of(name), replay=replay)
    assert_as_plain(step_of(model, x), [x, *model.parameters()], form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_draws_between_forward_and_backward_and_in_hooks(form):
    x = leaf(8)

    def step(region):
        y = region(lambda t: torch.dropout(t.sin(), 0.5, True).exp(), x)
        y.register_hook(lambda gradient: gradient * torch.rand(8))
        torch.rand(3)
        return y.sum() + torch.rand(())

    assert_as_plain(step, [x], form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_generators_of_ones_own(form):
    x = leaf(8)

    def run(region):
        argument = torch.Generator().manual_seed(1)
        captured = torch.Generator().manual_seed(2)

        def function(t, *, generator):
            noise = torch.rand(8, generator=captured) + torch.randn(8, generator=generator)
            return (t * noise).sin() * torch.rand(8, generator=captured)

        def step():
            y = region(function, x, generator=argument)
            torch.rand(3, generator=captured)
            return y.sum()

        result = run_step(step, [x])
        return [*result, argument.get_state(), captured.get_state()]

    assert_same(run(form), run(plain))


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_seeding_inside_a_region(form):
    x = leaf(8)

    def function(t):
        torch.manual_seed(7)
        return torch.dropout(t.sin(), 0.5, True).exp() * torch.rand(8)

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_torch_fork_rng_inside_a_region(form):
    x = leaf(8)

    def function(t):
        with torch.random.fork_rng(devices=[]):
            t = torch.dropout(t.sin(), 0.5, True)
        return torch.dropout(t.exp(), 0.5, True)

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


def test_generators_of_ones_own_are_an_error_if_operators_are_not_watched():
    x = leaf(8)
    captured = torch.Generator().manual_seed(2)
    options = reprise.CheckpointOptions(name="noise", watch_operators=False)
    y = reprise.checkpoint(
        lambda t: t.sin() * torch.rand(8, generator=captured), x, options=options
    )
    with pytest.raises(reprise.CheckpointError, match="'noise': aten::rand.generator draws"):
        y.sum().backward()


@pytest.mark.filterwarnings("ignore:reprise")
def test_without_rng_state_other_numbers_are_drawn():
    x = torch.ones(1000, requires_grad=True)
    torch.manual_seed(0)
    y = reprise.checkpoint(
        lambda t: torch.dropout(t, 0.5, True).exp(),
        x,
        preserve_rng_state=False,
        determinism_check="none",
    )
    y.sum().backward()
    assert not torch.equal(x.grad != 0, y.detach() != 1)


def test_without_rng_state_the_first_region_that_draws_warns():
    output = run_script(
        """
        import warnings
        x = torch.ones(3, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                reprise.checkpoint(torch.dropout, x, 0.5, True, preserve_rng_state=False)
        print([str(w.message) for w in caught if "preserve_rng_state" in str(w.message)])
        """
    )
    assert output.count("drew random numbers") == 1


def test_without_draws_the_generator_is_not_touched():
    x = leaf(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = reprise.checkpoint(lambda t: t.sin().exp(), x, preserve_rng_state=False)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_after_an_exception_the_generator_is_that_of_backward(form):
    x = leaf(8)

    def function(t):
        y = torch.dropout(t.sin(), 0.5, True).exp()
        if reprise.is_recomputing():
            raise KeyError("in the recomputation")
        return y * y

    y = form(function, x)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(KeyError):
        y.sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


def masks_of_forks(region):
    """Returns gradients that show the masks, and the numbers drawn next in and out of a fork."""
    reprise.model_parallel_manual_seed(1234, 1)
    x = torch.ones(64, requires_grad=True)

    def function(t):
        t = torch.dropout(t.exp(), 0.5, True)
        with reprise.fork_rng(NAME):
            t = torch.dropout(t.exp(), 0.5, True)
            with reprise.fork_rng(NAME):
                t = t * torch.rand(64)
        return torch.dropout(t.sin(), 0.5, True)

    y = region(function, x)
    with reprise.fork_rng(NAME):
        y = y + region(function, x)
    y.sum().backward()
    with reprise.fork_rng(NAME):
        inside = torch.rand(4)
    return [y.detach(), x.grad, inside, torch.rand(4)]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_named_states(form):
    assert_same(masks_of_forks(form), masks_of_forks(plain))


def test_named_states_differ_between_ranks_and_the_default_does_not():
    drawn = []
    for rank in range(2):
        reprise.model_parallel_manual_seed(1234, rank)
        with reprise.fork_rng(NAME):
            inside = torch.rand(4)
        drawn.append((inside, torch.rand(4)))
    assert not torch.equal(drawn[0][0], drawn[1][0])
    assert torch.equal(drawn[0][1], drawn[1][1])


def test_a_fork_ends_by_an_exception():
    reprise.model_parallel_manual_seed(1, 0)
    before = torch.get_rng_state()
    with pytest.raises(KeyError), reprise.fork_rng(NAME):
        torch.rand(3)
        raise KeyError("x")
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="no such name"):
        reprise.fork_rng("no such name").__enter__()


def test_python_numbers_that_reach_operators_are_compared():
    x = leaf(8)
    random.seed(0)
    y = reprise.checkpoint(lambda t: (t * random.random()).sin(), x)
    with pytest.raises(reprise.DeterminismError):
        y.sum().backward()
    with reprise.CheckpointScope():
        scale = random.random()
        y = (x * scale).sin()
    y.sum().backward()
    assert torch.equal(x.grad, (x.detach() * scale).cos() * scale)


@pytest.mark.parametrize("name", POLICIES)
def test_dropout_in_a_scope_with_a_policy_and_a_second_backward(name):
    model, x = Noisy(), leaf(4, 8)

    def twice(region):
        torch.manual_seed(0)
        x.grad = None
        loss = region(model, x).square().sum()
        loss.backward(retain_graph=True)
        first = x.grad.clone()
        loss.backward()
        return [first, x.grad]

    assert_same(twice(scope_with(policy=policy_of(name))), twice(plain))


def test_states_of_a_tracker_that_is_not_ours():
    """As Megatron-LM's: a function region notices, a scope calls no code that forks."""
    state = torch.Generator().manual_seed(3).get_state()
    x = leaf(64)

    def function(t):
        nonlocal state
        outer = torch.get_rng_state()
        torch.set_rng_state(state)
        t = torch.dropout(t.sin(), 0.5, True)
        state = torch.get_rng_state()
        torch.set_rng_state(outer)
        return torch.dropout(t.exp(), 0.5, True)

    with pytest.raises(reprise.DeterminismError, match="draws other numbers from the generator"):
        reprise.checkpoint(function, x).sum().backward()
    first = state

    def scoped():
        with reprise.CheckpointScope():
            return function(x)

    expected = run_step(lambda: function(x).sum(), [x])
    state = first
    assert_same(run_step(lambda: scoped().sum(), [x]), expected)
