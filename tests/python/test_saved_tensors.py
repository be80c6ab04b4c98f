# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""saved_tensors(): the bytes that a graph holds are those that are freed with it."""

import gc

import pytest
import reprise
import torch
from helpers import current_bytes
from torch import nn

ROWS, WIDTH = 128, 64
ONE = ROWS * WIDTH * 4  # bytes of an activation


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.kept = x.sin()
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient + 0 * x * ctx.kept


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1)) for _ in range(3))
    )


def views(model, x):
    h = model(x)
    return (h[: ROWS // 2] * h[ROWS // 2 :]).sin().t().exp()


def in_regions(model, x):
    return reprise.checkpoint(model[1:], model[0](x)).sin()


def with_policy(model, x):
    options = reprise.CheckpointOptions(policy=reprise.policies.save_matmuls(), name="mine")
    return reprise.checkpoint(model, x.sin(), options=options)


def in_scope(model, x):
    h = model[0](x)
    with reprise.CheckpointScope(name="mine"):
        h = model[1](h)
    return model[2](h)


def in_scope_with_policy(model, x):
    with reprise.CheckpointScope(name="mine", policy=reprise.policies.save_matmuls()):
        return model(x)


def nested(model, x):
    def outer(t):
        return reprise.checkpoint(model[1:], model[0](t)).sin()

    return reprise.checkpoint(outer, x.cos())


def on_cpu(model, x):
    with reprise.save_on_cpu():
        return views(model, x)


def packed(model, x):
    with reprise.store_guard(reprise.stores.disk()):
        return model(x).relu()


def torch_hooks(model, x):
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (1, t.double()), lambda p: p[1].float()
    ):
        return model(x).sin()


def custom(model, x):
    return Doubled.apply(model(x))


FORMS = {
    "plain": lambda model, x: model(x),
    "views": views,
    "region": in_regions,
    "region with a policy": with_policy,
    "scope": in_scope,
    "scope with a policy": in_scope_with_policy,
    "nested": nested,
    "save_on_cpu": on_cpu,
    "store": packed,
    "hooks of Python": torch_hooks,
    "custom Function": custom,
    "a list": lambda model, x: torch.cat([model(x), x, model(x)]),
}


@pytest.mark.parametrize("name", FORMS)
def test_bytes_are_those_that_are_freed_with_the_graph(name):
    model = make_model()
    FORMS[name](model, torch.randn(ROWS, WIDTH)).sum().backward()
    gc.collect()
    loss = FORMS[name](model, torch.randn(ROWS, WIDTH)).sum()
    gc.collect()
    bill = reprise.saved_tensors(loss)
    of_loss = loss.untyped_storage().nbytes()
    before = current_bytes()
    del loss
    gc.collect()
    assert bill.total_bytes == before - current_bytes() - of_loss
    parameters = sum(p.untyped_storage().nbytes() for p in model.parameters())
    assert sum(row["bytes"] for row in bill.leaves) == parameters


@pytest.mark.parametrize("name", FORMS)
def test_reading_changes_nothing(name):
    model, calls = make_model(), []
    x = torch.randn(ROWS, WIDTH)
    model[1].register_forward_hook(lambda *_: calls.append(1))
    results = []
    for reads in (False, True):
        calls.clear()
        torch.manual_seed(1)
        model.zero_grad()
        loss = FORMS[name](model, x).sum()
        seen = len(calls)
        if reads:
            for _ in range(2):
                reprise.saved_tensors(loss)
        assert len(calls) == seen, "something has been computed again"
        loss.backward()
        results.append([p.grad.clone() for p in model.parameters()])
    assert all(map(torch.equal, *results))
    assert {row["kind"] for row in reprise.saved_tensors(loss).rows} <= {"kept on ctx"}


def test_rows_and_sums():
    model = make_model()
    with reprise.record_modules(model) as modules:
        loss = in_scope_with_policy(model[:1], torch.randn(ROWS, WIDTH)) + 0
        loss = model[2](model[1](loss)).sum()
    bill = reprise.saved_tensors(loss, modules=modules)
    by_module = bill.bytes_by("module")
    assert by_module["1.1"] == ONE  # what GELU reads
    assert bill.bytes_by("module", "kind")["2.0", "saved"] == ONE
    in_region = [row for row in bill.rows if row["region"] == "mine"]
    assert {row["kind"] for row in in_region} == {"saved of a region", "input of a region"}
    assert all(row["bytes"] == ONE and row["shape"] == f"{ROWS}x{WIDTH}" for row in in_region)
    gelu = next(row for row in bill.rows if row["module"] == "2.1")
    assert (gelu["node"], gelu["operator"], gelu["dtype"]) == (
        "GeluBackward0",
        "aten::gelu",
        "float32",
    )
    assert sum(bill.bytes_by("node").values()) == bill.total_bytes
    table = str(bill).splitlines()
    assert table[0].startswith("saved for backward: ") and " storages, and " in table[0]
    assert table[1].split() == ["bytes", "part", "module", "region", "node", "kind"]


def test_outputs_of_several_kinds():
    model, x = make_model(), torch.randn(ROWS, WIDTH)
    one, other = model(x), model(x)
    both = reprise.saved_tensors({"one": one, "other": [other, 3]})
    edge = torch.autograd.graph.get_gradient_edge(one)
    alone = reprise.saved_tensors(edge)
    assert alone.total_bytes == reprise.saved_tensors(one).total_bytes
    assert both.total_bytes == 2 * alone.total_bytes - ONE  # x once
    assert reprise.saved_tensors(x).rows == []


def test_budgets_hold_what_their_plans_retain():
    model, x = make_model(), torch.randn(ROWS, WIDTH)
    budget = reprise.MemoryBudget(max_overhead=0.5)
    for _ in range(3):
        with budget.step():
            loss = model(x).square().mean()
        bill = reprise.saved_tensors(loss)
        loss.backward()
    plain = reprise.saved_tensors(model(x).square().mean())
    assert 0 < bill.total_bytes < plain.total_bytes


def test_a_picture(tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    bill = reprise.saved_tensors(make_model()(torch.randn(ROWS, WIDTH)).sum())
    bill.write_picture(tmp_path / "bill.svg")
    assert "GeluBackward0" in (tmp_path / "bill.svg").read_text()
    bill.write_picture(tmp_path / "bill.html")
    page = (tmp_path / "bill.html").read_text()
    assert "GeluBackward0" in page and 'src="http' not in page
    with pytest.raises(ValueError, match="an .html or .svg file; not"):
        bill.write_picture(tmp_path / "bill.png")
