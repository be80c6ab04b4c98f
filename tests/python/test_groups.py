# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""GraphExecGroup, and reads of saved tensors outside of backward."""

import pytest
import reprise
import torch
from helpers import FUNCTION_FORMS, block, current_bytes, leaf, plain


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_a_group_shares_one_recomputation(form):
    x, w = leaf(5), leaf(5)
    runs = []

    def function(t):
        runs.append(1)
        h = t.sin() * w
        return h.exp().tan()

    y = form(function, x)
    with reprise.GraphExecGroup() as group:
        (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        before = len(runs)
        assert torch.equal(torch.autograd.grad(y.sum(), w, retain_graph=True)[0], w_gradient(x, w))
    assert before >= 2
    group.release()
    assert torch.equal(first, torch.autograd.grad((x.sin() * w).exp().tan().sum(), x)[0])


def w_gradient(x, w):
    return torch.autograd.grad((x.sin() * w).exp().tan().sum(), w)[0]


def test_a_group_over_two_halves_of_a_graph_replays_once():
    x = leaf(5)
    runs = []
    middle = []

    def function(t):
        runs.append(1)
        h = t.sin().exp()
        middle[:] = [h]
        return h.tan().exp()

    y = reprise.checkpoint(function, x)
    h = middle[0]
    with reprise.GraphExecGroup() as group:
        (grad_h,) = torch.autograd.grad(y.sum(), h, retain_graph=True)
        (grad_x,) = torch.autograd.grad(h, x, grad_h)
    group.release()
    assert len(runs) == 2
    assert torch.equal(grad_x, torch.autograd.grad(x.sin().exp().tan().exp().sum(), x)[0])


def test_recompute_now_ahead_of_backward():
    x = leaf(64)
    runs = []

    def function(t):
        runs.append(1)
        return t.sin().exp().tan()

    group = reprise.GraphExecGroup()
    with group:
        y = reprise.checkpoint(function, x)
    before = current_bytes()
    group.recompute_now()
    assert len(runs) == 2
    assert current_bytes() - before == 2 * 64 * 4  # of sin and exp; tan's result exists
    with group:
        y.sum().backward()
    assert len(runs) == 2
    group.release()
    got, x.grad = x.grad, None
    plain(lambda t: t.sin().exp().tan(), x).sum().backward()
    assert torch.equal(got, x.grad)


def test_release_frees_what_recompute_now_has_made():
    x = leaf(64)
    group = reprise.GraphExecGroup()
    with group:
        y = reprise.checkpoint(lambda t: t.sin().exp().tan(), x)
    before = current_bytes()
    group.recompute_now()
    assert current_bytes() > before
    group.release()
    assert current_bytes() == before
    group.recompute_now()
    del group
    assert current_bytes() == before
    y.sum().backward()


def test_exceptions_of_recompute_now_arrive():
    x = leaf(5)

    def function(t):
        if reprise.is_recomputing():
            raise KeyError("now")
        return t.sin().exp()

    group = reprise.GraphExecGroup()
    with group:
        y = reprise.checkpoint(function, x)
    with pytest.raises(KeyError, match="now"):
        group.recompute_now()
    with pytest.raises(KeyError, match="now"):
        y.sum().backward()


def test_groups_do_not_nest_and_can_be_entered_again():
    x = leaf(5)
    group = reprise.GraphExecGroup()
    for _ in range(2):
        with group:
            with pytest.raises(RuntimeError, match="GraphExecGroup contexts cannot be nested"):
                reprise.GraphExecGroup().__enter__()
            reprise.checkpoint(block, x).sum().backward()
    with pytest.raises(KeyError), group:
        raise KeyError("in the block")
    reprise.checkpoint(block, x).sum().backward()


def test_reading_a_saved_tensor_outside_of_backward():
    x = leaf(5)
    y = reprise.checkpoint(lambda t: t.sin().exp().tan(), x)
    node = y.grad_fn
    assert torch.equal(node._saved_result, y)
    exp = node.next_functions[0][0]
    assert torch.equal(exp._saved_result, x.detach().sin().exp())
    before = current_bytes()
    assert torch.equal(exp._saved_result, x.detach().sin().exp())
    assert current_bytes() == before
    y.sum().backward()
