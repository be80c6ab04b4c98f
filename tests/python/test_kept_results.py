# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Modules that keep results of their forwards live as long as plain ones, and no longer."""

import functools
import gc
import random
import weakref

import pytest
import reprise
import torch
from helpers import ALL_FORMS, leaf, with_options

KEEPS = {
    "attribute": lambda module, h: setattr(module, "last", h.mean()),
    "list": lambda module, h: module.results.append(h.sum(0)),
    "dict": lambda module, h: module.by_name.update({len(module.by_name): (h * 2,)}),
    "view": lambda module, h: setattr(module, "view", (h * 3)[1:].t()),
    "output": lambda module, h: module.results.append(h),
    "closure": lambda module, h: setattr(module, "read", lambda: h + 1),
    "nothing": lambda module, h: None,
}


class Keeps(torch.nn.Module):
    def __init__(self, *kinds):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.kinds, self.results, self.by_name = kinds, [], {}

    def forward(self, x):
        h = self.linear(x).tanh()
        for kind in self.kinds:
            KEEPS[kind](self, h)
        return h @ self.linear.weight


class RefersToItself(Keeps):
    def __init__(self, *kinds):
        super().__init__(*kinds)
        self.run = functools.partial(Keeps.forward, self)

    def forward(self, x):
        return self.run(x)


@pytest.fixture(autouse=True)
def collections_look_at_new_objects_only():
    gc.collect()
    gc.freeze()  # a collection is then fast
    yield
    gc.unfreeze()


def run_with(form, module):
    """Twice: as the region's code, and within it."""
    form(lambda x: module(x), form(module, leaf(3, 4)))


def alive_after_collection(parameters):
    gc.collect()
    gc.collect()  # of what garbage of Python alone held a graph of
    return sum(parameter() is not None for parameter in parameters)


def parameters_of(*modules):
    return [weakref.ref(p) for module in modules for p in module.parameters()]


@pytest.mark.parametrize("kind", KEEPS)
@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("module_class", [Keeps, RefersToItself])
def test_modules_are_freed_without_a_backward(form, kind, module_class):
    module = module_class(kind)
    parameters = parameters_of(module)
    run_with(ALL_FORMS[form], module)
    del module
    assert alive_after_collection(parameters) == 0


def test_a_graph_that_is_used_still_runs_its_regions():
    module = Keeps("attribute", "view")
    x = leaf(3, 4)
    y = reprise.checkpoint(module, x)
    plain = torch.autograd.grad(module(x).sum(), x)[0]
    del module
    gc.collect()
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], plain)


def test_results_keep_their_graphs_while_their_module_is_reachable():
    module = Keeps("attribute", "view", "list")
    reprise.checkpoint(module, leaf(3, 4))
    gc.collect()
    for result in (module.last, module.view, module.results[0]):
        assert type(result.grad_fn).__name__ != "Error"
    (module.last + module.view.sum() + module.results[0].sum()).backward()
    assert module.linear.weight.grad is not None


def test_a_result_that_a_freed_module_kept_says_so():
    seen = []

    def read(module, x):
        seen.append(getattr(module, "last", None))
        return module(x)

    x = leaf(3, 4)
    y = reprise.checkpoint(read, Keeps("attribute"), x)
    gc.collect()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a result that a module keeps, has been freed"):
        seen[1].backward()


# Random modules, of which random parts are dropped: the rest is as it would be without regions.
FORMS_OF_PROGRAMS = {name: ALL_FORMS[name] for name in ("function", "nested", "scope")} | {
    "saves": with_options(policy=reprise.policies.save_everything())
}
# In a replay under a policy, an error.
ACCUMULATE = ("list", "dict", "output")


def gradient_of(tensor, x):
    return torch.autograd.grad(tensor.sum(), x, allow_unused=True, retain_graph=True)[0]


def run_program(seed, form, keeps):
    """Returns what a program with this seed leaves: parameters alive while nothing is held and in
    the end, and the gradients of what is held."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kinds = [rng.choices(keeps, k=rng.randint(1, 3)) for _ in range(rng.randint(1, 4))]
    modules = [rng.choice([Keeps, RefersToItself])(*some) for some in kinds]
    parameters = parameters_of(*modules)
    x = h = leaf(3, 4)
    for module in modules:
        for _ in range(rng.choice([1, 1, 2])):
            h = form(module, h)
    held = [h] if rng.random() < 0.4 else []
    held += [r for m in modules for r in m.results if rng.random() < 0.2]
    held += [m.view for m in modules if hasattr(m, "view") and rng.random() < 0.3]
    if rng.random() < 0.2:
        held.append(modules[-1].linear.weight)
    del modules, module, h
    # Of a parameter that only a graph holds, LibTorch before 2.10 drops the object.
    alive = alive_after_collection([] if held else parameters)
    gradients = [gradient_of(tensor, x) for tensor in held]
    del held
    return alive, gradients, alive_after_collection(parameters)


@pytest.mark.parametrize("form", FORMS_OF_PROGRAMS)
def test_random_programs_keep_what_plain_ones_keep(form):
    keeps = [kind for kind in KEEPS if form != "saves" or kind not in ACCUMULATE]
    for seed in range(150):
        expected = run_program(seed, lambda module, h: module(h), keeps)
        found = run_program(seed, FORMS_OF_PROGRAMS[form], keeps)
        assert found[0] == found[2] == 0, seed
        assert len(found[1]) == len(expected[1])
        for ours, plain in zip(found[1], expected[1], strict=True):
            assert (ours is None) == (plain is None), seed
            assert ours is None or torch.equal(ours, plain), seed
