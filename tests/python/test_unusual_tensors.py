# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Tensors without memory of their own, empty, complex, sparse; wrapper subclasses."""

import pytest
import reprise
import torch
from helpers import ALL_FORMS, FORMS, assert_as_plain, leaf, plain
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

FORMS_PARAM = pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)


@FORMS_PARAM
def test_wrapper_subclasses(form):
    first, second = torch.randn(5), torch.randn(5)

    def gradient(region):
        x = TwoTensor(first.clone(), second.clone()).requires_grad_()
        region(lambda t: (t.sin() * t.exp()).sigmoid(), x * 2).sum().backward()
        assert type(x.grad) is TwoTensor
        return x.grad

    expected, got = gradient(plain), gradient(form)
    assert torch.equal(got.a, expected.a)
    assert torch.equal(got.b, expected.b)


@FORMS_PARAM
def test_fake_tensors(form):
    with FakeTensorMode():
        x = torch.empty(5, requires_grad=True)
        y = form(lambda t: torch.dropout(t.sin(), 0.5, True).exp(), x * 2)
        y.sum().backward()
        assert x.grad.shape == (5,)


@FORMS_PARAM
def test_meta_tensors(form):
    x = torch.empty(5, device="meta", requires_grad=True)
    form(lambda t: torch.dropout(t.sin(), 0.5, True).exp(), x).sum().backward()
    assert x.grad.shape == (5,)


@FORMS_PARAM
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 0)])
def test_empty_tensors_and_scalars(form, shape):
    x = leaf(*shape)
    assert_as_plain(lambda region: region(lambda t: t.sin().exp(), x).sum(), [x], form)


@FORMS_PARAM
def test_complex_conjugated_and_negated_tensors(form):
    x = torch.randn(6, dtype=torch.cfloat, requires_grad=True)

    def function(t):
        return (t.conj() * t.sin()).imag.neg().exp() + torch.view_as_real(t.exp()).sum(-1)

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@FORMS_PARAM
def test_sparse_nested_and_blocked_tensors(form):
    x = leaf(4, 6)

    def function(t):
        sparse = torch.sparse.mm(torch.eye(4).to_sparse(), t.sin())
        nested = torch.nested.as_nested_tensor([t[:2].sin(), t[1:].exp()])
        padded = torch.nested.to_padded_tensor(nested, 0.0)
        blocked = t[None, None].to_mkldnn().relu().to_dense()
        return sparse.exp().sum() + padded.exp().sum() + blocked.exp().sum()

    assert_as_plain(lambda region: region(function, x), [x], form)


@FORMS_PARAM
def test_views_with_strides_and_offsets(form):
    x = leaf(6, 6)

    def function(t):
        t = t.t()[1:, ::2].sin()
        return t.expand(2, -1, -1).diagonal(dim1=1, dim2=2).unfold(1, 2, 1).exp()

    assert_as_plain(lambda region: region(function, x[::2].t()).sum(), [x], form)


@FORMS_PARAM
def test_memory_that_numpy_owns_and_writes(form):
    x = leaf(5)

    def function(t):
        values = torch.zeros(5)
        values.numpy()[:] = 3.0
        copied = torch.from_numpy(t.detach().numpy().copy())
        return (t * values).sin() * copied

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


@FORMS_PARAM
def test_results_that_need_no_gradient(form):
    x = leaf(5)

    def step(region):
        values, order = region(lambda t: t.sin().sort(), x)
        assert not order.requires_grad
        return (values * order).exp().sum()

    assert_as_plain(step, [x], form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_default_dtype_and_device_contexts(form):
    x = torch.randn(5, dtype=torch.double, requires_grad=True)

    def step(region):
        torch.set_default_dtype(torch.double)
        try:
            with torch.device("cpu"):
                return region(lambda t: (t * torch.ones(5)).sin() * torch.rand(5), x).sum()
        finally:
            torch.set_default_dtype(torch.float)

    assert_as_plain(step, [x], form)
    assert reprise.is_recomputing() is False
