# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Classes of tensors, in regions under policies: wrappers of other tensors, and torch functions."""

import pytest
import reprise
import torch
from helpers import ALL_FORMS, MODES_COME_FIRST, Boxed, plain, scope_with, with_options
from torch.testing._internal.two_tensor import TwoTensor

MM = [torch.ops.aten.mm.default]
POLICIES = reprise.policies
FORMS_UNDER_POLICIES = {
    **ALL_FORMS,
    "nothing": with_options(policy=POLICIES.save_nothing()),
    "list": with_options(policy=MM),
    "list, values": with_options(policy=MM, determinism_check="values"),
    "matmuls": with_options(policy=POLICIES.save_matmuls()),
    "everything": with_options(policy=POLICIES.save_everything()),
    "every function": with_options(policy=lambda context, op, *args, **kwargs: True),
    "tape, list": with_options(policy=MM, replay="tape"),
    "scope, list": scope_with(policy=MM),
}
FORMS_PARAM = pytest.mark.parametrize(
    "form", FORMS_UNDER_POLICIES.values(), ids=FORMS_UNDER_POLICIES
)


class Flattened(Boxed):
    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Flattened(inner["inner"])


def matrix():
    return torch.linspace(-1, 1, 16).view(4, 4)


def function(t):
    return (t @ t).sin().exp()


def gradients_of_boxed(cls, form):
    x = cls(matrix()).requires_grad_()
    y = form(function, x * 2)
    assert type(y) is cls
    y.sum().backward()
    return [x.grad.inner]


def gradients_beside_read_elements(cls, form):
    def code(t):
        product = t @ t
        scale = product.inner.abs().sum().item()
        return product, (product * scale).sin()

    x = cls(matrix()).requires_grad_()
    product, scaled = form(code, x)
    (product.exp() * scaled).sum().backward()
    return [x.grad.inner]


def gradients_of_pair(form):
    x = TwoTensor(matrix(), matrix() + 1).requires_grad_()
    form(function, x).sum().backward()
    assert type(x.grad) is TwoTensor
    return [x.grad.a, x.grad.b]


def gradients_of_jagged(form):
    weight = torch.eye(4).requires_grad_()
    x = torch.nested.nested_tensor([matrix()[:2], matrix()[1:]], layout=torch.jagged)
    form(lambda t: torch.sin(t @ weight).exp(), x).values().sum().backward()
    return [weight.grad]


def assert_equal(got, expected):
    assert len(got) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(got, expected))


STORES = {
    "disk": lambda: reprise.stores.disk(min_bytes=0),
    "compressed": lambda: reprise.stores.compressed(min_bytes=0),
    "packed, disk": lambda: reprise.stores.packed(min_bytes=0) | reprise.stores.disk(min_bytes=0),
    "slab": reprise.stores.slab,
    "host": lambda: reprise.stores.host(min_bytes=0),
}


def guarded_by(store):
    def run(function, *args):
        with reprise.store_guard(store):
            return function(*args)

    return run


def within_a_budget(store):
    def run(function, *args):
        budget = reprise.MemoryBudget(peak_bytes=1 << 40, stores=[store])
        with budget.step():
            return function(*args)

    return run


STORED_FORMS = {
    "guard": guarded_by,
    "function": lambda store: with_options(input_store=store),
    "scope": lambda store: scope_with(input_store=store),
    "function, policy": lambda store: with_options(policy=MM, input_store=store),
    "budget": within_a_budget,
}


@pytest.mark.parametrize("make_form", STORED_FORMS.values(), ids=STORED_FORMS)
@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@pytest.mark.parametrize("cls", [Boxed, Flattened])
def test_wrappers_in_stores(make_form, make_store, cls):
    form = make_form(make_store())
    assert_equal(gradients_of_boxed(cls, form), gradients_of_boxed(cls, plain))
    assert_equal(gradients_of_pair(form), gradients_of_pair(plain))
    assert_equal(gradients_of_jagged(form), gradients_of_jagged(plain))


@FORMS_PARAM
@pytest.mark.parametrize("cls", [Boxed, Flattened])
def test_elements_of_a_result_may_be_read(form, cls):
    found = gradients_beside_read_elements(cls, form)
    assert_equal(found, gradients_beside_read_elements(cls, plain))


@FORMS_PARAM
@pytest.mark.parametrize("cls", [Boxed, Flattened])
def test_wrappers(form, cls):
    assert_equal(gradients_of_boxed(cls, form), gradients_of_boxed(cls, plain))


@FORMS_PARAM
def test_a_wrapper_of_two(form):
    assert_equal(gradients_of_pair(form), gradients_of_pair(plain))


# A fingerprint of a jagged tensor cannot be taken.
WITHOUT_VALUES = {name: form for name, form in FORMS_UNDER_POLICIES.items() if "values" not in name}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("form", WITHOUT_VALUES.values(), ids=WITHOUT_VALUES)
def test_jagged_tensors(form):
    assert_equal(gradients_of_jagged(form), gradients_of_jagged(plain))


@FORMS_PARAM
def test_results_of_the_region_keep_their_class(form):
    """What the code keeps, and a view of it, is a box with forward's values afterwards."""
    kept = []

    def code(t):
        h = t @ t
        kept[:] = [h, h.t()]
        return h.sin().exp()

    x = Boxed(matrix()).requires_grad_()
    form(code, x).sum().backward()
    expected = matrix() @ matrix()
    assert [type(t) for t in kept] == [Boxed, Boxed]
    assert torch.equal(kept[0].inner, expected)
    assert torch.equal(kept[1].inner, expected.t())


@pytest.mark.parametrize("cls", [Boxed, Flattened])
@pytest.mark.parametrize("policy", [MM, POLICIES.save_everything()], ids=["list", "everything"])
def test_a_saved_result_is_not_computed_again(cls, policy):
    x = cls(matrix()).requires_grad_()
    with reprise.collect_memory_report():
        y = with_options(policy=policy)(function, x).sum()
        Boxed.multiplications = 0
        y.backward()
    assert Boxed.multiplications == 2 + MODES_COME_FIRST  # of the derivative, and one supplied
    (region,) = reprise.memory_report().regions
    assert {op.name: op.replays for op in region.operators}["aten::mm"] == 0


class Tripling(torch.Tensor):
    """Its functions give three times their result."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        is_exp = func in (torch.Tensor.exp, torch.exp)
        return super().__torch_function__(torch.mul, types, (result, 3)) if is_exp else result


@FORMS_PARAM
@pytest.mark.parametrize("ends_plainly", [False, True])
def test_functions_of_the_class_run_in_the_recomputation_as_in_forward(form, ends_plainly):
    """Tensor.backward() of such a class turns them off on its thread."""

    def gradients(region):
        x = (matrix() * 0.1).as_subclass(Tripling).requires_grad_()
        loss = region(lambda t: (t @ t).sin().exp().sin(), x).sum()
        if ends_plainly:
            loss = loss.as_subclass(torch.Tensor)
        loss.backward()
        return [x.grad.as_subclass(torch.Tensor)]

    assert_equal(gradients(form), gradients(plain))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("form", FORMS_UNDER_POLICIES.values(), ids=FORMS_UNDER_POLICIES)
def test_a_policy_that_must_save_passes_sparse_results_through(form):
    def gradients(region):
        x = matrix().requires_grad_()
        region(lambda t: (t.to_sparse() * 2).to_dense().sin().exp(), x).sum().backward()
        return [x.grad]

    assert_equal(gradients(form), gradients(plain))
