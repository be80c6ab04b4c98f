# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Arguments of checkpoint(): containers, identity, subclasses, objects that are no tensors."""

import collections
import contextlib
import dataclasses
import functools
import gc
import weakref

import numpy as np
import pytest
import reprise
import torch
import torch.utils._pytree as pytree
from helpers import FORMS, FUNCTION_FORMS, assert_as_plain, plain, run_step
from torch.autograd.graph import saved_tensors_hooks

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Batch:
    tokens: torch.Tensor
    scale: float
    others: list


@dataclasses.dataclass
class RegisteredBatch(Batch):
    pass


pytree.register_dataclass(RegisteredBatch)


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


class RegisteredBox(Box):
    pass


pytree.register_pytree_node(
    RegisteredBox,
    lambda box: ([box.tensor], None),
    lambda parts, _: RegisteredBox(*parts),
    serialized_type_name="test_arguments.RegisteredBox",
)

# Each makes an argument of two tensors, and says how to read them.
CONTAINERS = {
    "tuple": (lambda a, b: (a, 2, b), lambda c: (c[0], c[2])),
    "list": (lambda a, b: [None, a, b], lambda c: (c[1], c[2])),
    "dict": (lambda a, b: {"a": a, 3: b, "x": "text"}, lambda c: (c["a"], c[3])),
    "nested": (lambda a, b: [{"k": (a, [b])}, ()], lambda c: (c[0]["k"][0], c[0]["k"][1][0])),
    "namedtuple": (Pair, lambda c: (c.left, c.right)),
    "OrderedDict": (
        lambda a, b: collections.OrderedDict(a=a, b=b),
        lambda c: (c["a"], c["b"]),
    ),
    "defaultdict": (
        lambda a, b: collections.defaultdict(list, a=a, b=b),
        lambda c: (c["a"], c["b"]) if c["none"] == [] else None,
    ),
    "dataclass": (lambda a, b: Batch(a, 2.0, [b]), lambda c: (c.tokens, c.others[0])),
    "registered dataclass": (
        lambda a, b: RegisteredBatch(a, 2.0, [b]),
        lambda c: (c.tokens, c.others[0]),
    ),
    "object": (lambda a, b: Box(Box((a, b))), lambda c: c.tensor.tensor),
    "registered object": (
        lambda a, b: RegisteredBox([RegisteredBox(a), b]),
        lambda c: (c.tensor[0].tensor, c.tensor[1]),
    ),
    "same tensor twice": (lambda a, b: [a, a, b], lambda c: (c[0], c[2]) if c[0] is c[1] else None),
}
AROUND = {
    "no hooks": contextlib.nullcontext,
    "hooks": lambda: saved_tensors_hooks(lambda t: t.clone(), lambda t: t),
    "store": lambda: reprise.store_guard(reprise.stores.packed()),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("make, read", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("form", [FORMS["function"], FORMS["tape"]], ids=["function", "tape"])
def test_containers(form, make, read, around):
    a, b = torch.randn(600, requires_grad=True), torch.randn(600, requires_grad=True)
    types = []

    def function(container, *, named):
        types.append((type(container), type(named)))
        (first, second), (third, _) = read(container), read(named)
        return (first * second.sin()).exp() * third

    def step(region):
        with around():
            h = a * 2
            return region(function, make(h, b), named=make(b, h)).sum()

    assert_as_plain(step, [a, b], form)
    assert len(set(types)) == 1


@pytest.mark.parametrize("form", [FORMS["function"], FORMS["to the end"]])
def test_the_recomputation_gets_the_callers_objects(form):
    x = torch.randn(3, requires_grad=True)
    h = x * 2
    h.note = "mine"
    box, batch = Box(h), Batch(h, 1.0, [])
    seen = []

    def function(*args, **kwargs):
        seen.append((args, kwargs))
        return args[0].sin().exp()

    form(function, h, box, batch=batch).sum().backward()
    assert len(seen) == 2
    for args, kwargs in seen:
        assert args[0] is h
        assert args[0].note == "mine"
        assert args[1] is box
        assert kwargs["batch"] is batch


def test_behind_hooks_objects_that_are_no_tensors_are_the_callers():
    x = torch.randn(3, requires_grad=True)
    box = Box(3)
    seen = []

    def function(t, *others):
        seen.append(others)
        return t.sin().exp()

    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = reprise.checkpoint(function, x * 1, box, "text", print, 2**70, None)
    y.sum().backward()
    assert len(seen) == 2
    assert all(one is other for one, other in zip(*seen, strict=True))


class Tagged(torch.Tensor):
    pass


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_classes_of_tensors(form, around):
    x = torch.randn(600, requires_grad=True)
    weight = torch.nn.Parameter(torch.randn(600))
    classes = []

    def function(tagged, parameter):
        classes.append((type(tagged), type(parameter)))
        return (tagged * parameter).sin().exp()

    def step(region):
        with around():
            return region(function, (x * 2).as_subclass(Tagged), weight).sum()

    expected = run_step(lambda: step(plain), [x, weight])
    got = run_step(lambda: step(form), [x, weight])
    for one, other in zip(got, expected, strict=True):
        assert type(one) is type(other)
        assert torch.equal(one, other)
    assert len(classes) == (3 if form is not FORMS["nested"] else 4)
    assert set(classes) == {(Tagged, torch.nn.Parameter)}


@pytest.mark.parametrize(
    "make, around",
    [
        (torch.Tensor, AROUND["no hooks"]),
        (torch.Tensor, AROUND["hooks"]),
        (torch.Tensor, AROUND["store"]),
        (torch.nn.Parameter, AROUND["no hooks"]),
        (torch.nn.Parameter, AROUND["hooks"]),
        (torch.nn.Parameter, AROUND["store"]),
        (Tagged, AROUND["hooks"]),
    ],
)
def test_leaves_are_leaves_in_the_recomputation(make, around):
    x = torch.randn(600).as_subclass(make).requires_grad_()
    leaves = []

    def function(t):
        leaves.append(t.is_leaf)
        return t.sin().exp()

    with around():
        y = reprise.checkpoint(function, x)
    y.sum().backward()
    assert leaves == [True, True]


def test_an_argument_that_needs_no_gradient_is_the_same_object_for_saved_tensors():
    x, mask = torch.randn(3, requires_grad=True), torch.ones(3)
    y = reprise.checkpoint(lambda t, m: t * m, x, mask)
    assert y.grad_fn._saved_other is mask


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_views_and_tensors_that_share_memory(form):
    x = torch.randn(6, requires_grad=True)

    def step(region):
        h = x * 1
        return region(lambda a, b: a.sin() * b.exp(), h[:3], h[3:]).sum()

    assert_as_plain(step, [x], form)


CHANGED_CONTAINERS = {
    "element replaced": (lambda t: [t], lambda v: v[0], lambda v: v.__setitem__(0, v[0] + 1)),
    "appended": (lambda t: [t], sum, lambda v: v.append(v[0] + 1)),
    "cleared": (lambda t: [t], lambda v: v[0], lambda v: v.clear()),
    "popped by the code": (lambda t: [t], lambda v: v.pop(), lambda v: None),
    "appended by the code": (
        lambda t: [t],
        lambda v: v.append(v[0].cos()) or sum(v),
        lambda v: None,
    ),
    "value of a dict": (lambda t: {"k": t}, lambda v: v["k"], lambda v: v.update(k=v["k"] + 1)),
    "number": (lambda t: [t, 2.0], lambda v: v[0] * v[1], lambda v: v.__setitem__(1, 3.0)),
    "nested": (lambda t: ([t],), lambda v: v[0][0], lambda v: v[0].clear()),
    "registered": (
        lambda t: collections.OrderedDict(k=t),
        lambda v: v["k"],
        lambda v: v.update(k=v["k"] + 1),
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("make, read, change", CHANGED_CONTAINERS.values(), ids=CHANGED_CONTAINERS)
def test_a_container_that_changes_has_forwards_contents(make, read, change, form):
    x = torch.randn(3, requires_grad=True)
    sizes = []

    def step(region):
        first = x * 1
        values = make(first)
        y = region(lambda v: read(v).sin().exp(), values)
        change(values)
        first.register_hook(lambda _: sizes.append(len(values)))
        return y.sum()

    assert_as_plain(step, [x], form)
    assert len(set(sizes)) == 1  # the recomputation does not change it


CHANGED_OBJECTS = {
    "array": (
        lambda t: [t, np.full(3, 2.0, "f")],
        lambda v: v[0] * torch.from_numpy(v[1]),
        lambda v: v[1].fill(3.0),
    ),
    "attribute": (
        lambda t: Batch(t, 2.0, None),
        lambda v: v.tokens * v.scale,
        lambda v: setattr(v, "tokens", v.tokens + 1),
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("make, read, change", CHANGED_OBJECTS.values(), ids=CHANGED_OBJECTS)
def test_an_object_that_changes_is_an_error_where_the_code_runs_again(make, read, change, form):
    x = torch.randn(3, requires_grad=True)

    def step(region):
        values = make(x * 1)
        y = region(lambda v: read(v).sin().exp(), values)
        change(values)
        return y.sum()

    if form in FUNCTION_FORMS.values():
        with pytest.raises(reprise.MutationError, match="aten::mul.Tensor reads a tensor from"):
            step(form).backward()
    else:
        assert_as_plain(step, [x], form)


def test_a_container_that_does_not_change_is_the_same_object():
    x = torch.randn(3, requires_grad=True)
    arguments = [[x], {"k": [x]}, (x, [1]), collections.OrderedDict(a=1)]
    seen = []

    def function(*values):
        seen.append([id(v) for v in (*values, values[1]["k"], values[2][1])])
        return values[0][0].sin().exp()

    reprise.checkpoint(function, *arguments).sum().backward()
    first, second = seen
    assert first == second


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_arguments_live_as_long_as_the_graph(form):
    x = torch.randn(3, requires_grad=True)
    argument, captured = Box(x), Box(x)
    alive = [weakref.ref(argument), weakref.ref(captured)]

    def function(box, captured=captured):
        return (box.tensor * captured.tensor).sin()

    y = form(function, argument)
    del argument, captured, function
    y.sum().backward()
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


def test_more_arguments_than_usual():
    tensors = [torch.randn(2, requires_grad=True) for _ in range(300)]
    keywords = {f"k{i}": tensor for i, tensor in enumerate(tensors[:150])}

    def function(*args, **kwargs):
        return sum(t.sin() for t in (*args, *kwargs.values()))

    assert_as_plain(
        lambda region: region(function, *tensors, **keywords).sum(), tensors, reprise.checkpoint
    )


def test_deeply_nested_containers():
    x = torch.randn(2, requires_grad=True)
    nested = x
    for _ in range(200):
        nested = [nested]

    def function(value):
        while isinstance(value, list):
            (value,) = value
        return value.sin().exp()

    assert_as_plain(lambda region: region(function, nested).sum(), [x], reprise.checkpoint)


def test_callables_of_all_kinds():
    x = torch.randn(3, requires_grad=True)

    class Callable:
        def __call__(self, t):
            return t.sin().exp()

        def method(self, t):
            return t.cos().exp()

        @staticmethod
        def function(t):
            return t.tan().exp()

    for function in (
        Callable(),
        Callable().method,
        Callable.function,
        torch.sin,
        torch.Tensor.sin,
        functools.partial(torch.pow, exponent=3),
        torch.nn.Tanh(),
        torch.jit.trace(lambda t: t.sin().exp(), torch.ones(3)),
    ):
        assert_as_plain(lambda region, f=function: region(f, x).sum(), [x], *FORMS.values())
