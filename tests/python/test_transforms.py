# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions inside of transforms of torch.func, around them, and in exported programs."""

import contextlib
import copy
import random
import warnings

import pytest
import reprise
import torch
from helpers import ALL_FORMS, plain, run_script
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

OPERATORS = [
    torch.sin,
    torch.exp,
    torch.tanh,
    lambda t: t * t.cos(),
    lambda t: t.softmax(-1),
    lambda t: t @ torch.ones(t.shape[-1], t.shape[-1]).triu(),
    lambda t: t.sum(-1, keepdim=True) * t.sigmoid(),
    lambda t: t.reshape(t.shape).neg(),
]


def random_block(seed):
    chosen = random.Random(seed).choices(OPERATORS, k=5)

    def block(t):
        for operator in chosen:
            t = operator(t * 0.5)
        return t

    return block


def leaf_of(x):
    return x.clone().requires_grad_()


def backward_of(function, x):
    x = leaf_of(x)
    return torch.autograd.grad(function(x).sum(), x)[0]


# Each takes a function of a tensor, of which a region is a part.
TRANSFORMS = {
    "grad": lambda f, x: grad(lambda t: f(t).sum())(x),
    "grad of grad": lambda f, x: grad(lambda t: grad(lambda u: f(u).sum())(t).sum())(x),
    "vjp": lambda f, x: vjp(f, x)[1](torch.ones_like(x))[0],
    "jvp": lambda f, x: jvp(f, (x,), (torch.ones_like(x),))[1],
    "vmap": lambda f, x: vmap(f)(x),
    "vmap of grad": lambda f, x: vmap(grad(lambda t: f(t).sum()))(x),
    "hessian": lambda f, x: hessian(lambda t: f(t).sum())(x),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "backward through vmap": lambda f, x: backward_of(vmap(f), x),
    "backward through jvp": lambda f, x: backward_of(
        lambda t: jvp(f, (t,), (torch.ones_like(t),))[1], x
    ),
    "grad of vmap": lambda f, x: grad(lambda t: vmap(f)(t).sum())(x),
}


@pytest.mark.filterwarnings("ignore:.*inside of a transform of torch.func")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("form", [name for name in ALL_FORMS if name != "policy"])
def test_transforms_of_regions_have_the_bits_of_plain_code(transform, form):
    for seed in range(6):
        block = random_block(seed)
        torch.manual_seed(seed)
        x = torch.randn(3, 4)

        def with_region(region, t, block=block):
            return region(block, t.sin()).cos()

        expected = TRANSFORMS[transform](lambda t, f=with_region: f(plain, t), x)
        got = TRANSFORMS[transform](lambda t, f=with_region: f(ALL_FORMS[form], t), x)
        assert torch.equal(got, expected), seed


@pytest.mark.parametrize("form", [name for name in ALL_FORMS if name != "policy"])
def test_regions_around_transforms_recompute(form):
    block = random_block(1)
    x = torch.randn(3, 4)

    def inner(t):
        return vmap(grad(lambda u: block(u).sum()))(t) + jvp(block, (t,), (t,))[1]

    expected = backward_of(inner, x)
    assert torch.equal(backward_of(lambda t: ALL_FORMS[form](inner, t), x), expected)


def test_tapes_inside_of_vmap_are_regions():
    def run(t):
        with reprise.CheckpointScope(name="inside"):
            return t.sin().exp()

    def replays(function):
        x = leaf_of(torch.randn(3, 4))
        with reprise.collect_memory_report():
            function(x).sum().backward()
        (region,) = reprise.memory_report().regions
        return region.replays

    assert replays(vmap(run)) == replays(run) > 0


@pytest.mark.filterwarnings("ignore:.*inside of a transform of torch.func")
@pytest.mark.parametrize("scope", [False, True])
def test_gradients_per_sample_of_models_with_regions(scope):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1))
    with_regions = copy.deepcopy(model)
    reprise.apply_checkpointing(with_regions, nn.Sequential, scope=scope)
    x = torch.randn(5, 4)

    def per_sample(model):
        parameters = dict(model.named_parameters())
        return vmap(
            grad(lambda p, t: functional_call(model, p, (t,)).square().sum()), in_dims=(None, 0)
        )(parameters, x)

    expected, got = per_sample(model), per_sample(with_regions)
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_the_first_one_warns():
    output = run_script(
        """
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(2):
                torch.func.grad(lambda t: reprise.checkpoint(torch.sin, t).sum())(torch.ones(2))
        print([str(each.message) for each in seen])
        """
    )
    assert output.count("a region inside of a transform of torch.func runs plainly") == 1


def test_it_can_be_an_error():
    x = torch.ones(2)
    regions = [
        lambda t: reprise.checkpoint(torch.sin, t).sum(),
        lambda t: ALL_FORMS["scope"](torch.sin, t).sum(),
    ]
    for region in regions:
        with reprise.set_transforms_allowed(False):
            with pytest.raises(
                reprise.CheckpointError,
                match=r"runs plainly: its tensors stay .*set_transforms_allowed\(False\)",
            ):
                grad(region)(x)
            with pytest.raises(ValueError, match="mine"):
                with reprise.set_transforms_allowed(True):
                    raise ValueError("mine")
            backward_of(region, x)  # no transform
    with reprise.set_transforms_allowed(False):
        vmap(lambda t: ALL_FORMS["scope"](torch.sin, t))(x)


@pytest.mark.filterwarnings("ignore:.*inside of a transform of torch.func")
def test_the_context_of_forward_is_entered():
    entered = []

    @contextlib.contextmanager
    def context(name):
        entered.append(name)
        yield

    grad(
        lambda t: reprise.checkpoint(
            torch.sin, t, context_fn=lambda: (context("forward"), context("recomputation"))
        ).sum()
    )(torch.ones(2))
    assert entered == ["forward"]
    with pytest.raises(TypeError, match="have to be a CheckpointOptions; received a dict"):
        grad(lambda t: reprise.checkpoint(torch.sin, t, options={}).sum())(torch.ones(2))


def test_hooks_that_the_user_disables_are_an_error_as_before():
    x = leaf_of(torch.ones(2))
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            reprise.checkpoint(torch.sin, x)


OPTIONS = reprise.CheckpointOptions(policy=["aten::mm"])


class Exported(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if self.form == "function":
            return reprise.checkpoint(self.linear, x).sin()
        if self.form == "options":
            return reprise.checkpoint(self.linear, x, options=OPTIONS).sin()
        if self.form == "scope":
            with reprise.CheckpointScope():
                return self.linear(x).sin()
        return self.linear(x).sin()


@pytest.mark.parametrize("form", ["function", "options", "modules", "modules as scopes", "scope"])
@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs_have_no_regions(form, strict):
    if strict and form == "scope":
        pytest.skip("strict mode traces no class of an extension module")
    model, x = Exported(form), torch.randn(3, 4)
    expected = model(x)
    if form.startswith("modules"):
        reprise.apply_checkpointing(model, "linear", scope=form.endswith("scopes"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (x,), strict=strict)
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert called == ["aten.linear.default", "aten.sin.default"]
    assert torch.equal(program.module()(x), expected)
