# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Policies: what they are asked and may answer, and the operators that backward computes again."""

import collections
import functools

import pytest
import reprise
import torch
from helpers import (
    MODES_COME_FIRST,
    assert_as_plain,
    leaf,
    operators_of,
    plain,
    scope_with,
    with_options,
)
from reprise import CheckpointPolicy, policies
from reprise._policies import find_overload

MM = torch.ops.aten.mm.default
ADDMM = torch.ops.aten.addmm.default


def options_of(policy, **others):
    return reprise.CheckpointOptions(policy=policy, **others)


def counts_in_backward(form, policy, function, x):
    """Returns how often backward computes each operator, less what it runs without a region."""
    plain_loss = plain(function, x).sum()
    with reprise.collect_memory_report():
        loss = form(policy=policy)(function, x).sum()
        _, counts = operators_of(lambda: torch.autograd.grad(loss, x))
    if MODES_COME_FIRST and form is with_options:
        (region,) = reprise.memory_report().regions
        counts = collections.Counter()
        for op in region.operators:
            name, _, overload = op.name.partition(".")
            counts[str(find_overload(name, overload))] = op.replays
        return counts
    _, expected = operators_of(lambda: torch.autograd.grad(plain_loss, x))
    return counts - expected


def chain(t):
    return t.sin().exp().sin().tanh().sin()


def save_the_first(seen, context, op, *args):
    seen.append(op)
    return len(seen) == 1


# Backward does not need the result of the last one.
SINS_COMPUTED_AGAIN = [
    (policies.save_nothing(), 2),
    (policies.save_everything(), 0),
    (["aten::sin"], 0),
    ([torch.ops.aten.exp.default], 1),
    (lambda context, op, *args: op is torch.ops.aten.sin.default, 0),
    (policies.save_where(lambda result: result.numel() == 4), 0),
    (policies.save_where(lambda result: result.numel() == 5), 2),
    (policies.save_tagged(torch.Tag.pointwise), 0),
    (policies.save_tagged(torch.Tag.data_dependent_output), 2),
    (policies.with_state(list, save_the_first), 1),
]


@pytest.mark.parametrize("form", [with_options, scope_with], ids=["function", "scope"])
@pytest.mark.parametrize("policy, sins", SINS_COMPUTED_AGAIN)
def test_operators_computed_again(form, policy, sins):
    counts = counts_in_backward(form, policy, chain, leaf(4))
    assert counts["aten.sin.default"] == sins


@pytest.mark.parametrize("form", [with_options, scope_with], ids=["function", "scope"])
def test_each_run_of_a_region_has_its_state(form):
    states = []

    def make_state():
        states.append([])
        return states[-1]

    def decide(seen, context, op, *args, **kwargs):
        seen.append((op, len(args)))
        return CheckpointPolicy.PREFER_RECOMPUTE

    region = form(policy=policies.offload(policies.with_state(make_state, decide)))
    x = leaf(4)
    for _ in range(2):
        region(lambda t: t.sin().add(t, alpha=2), x).sum().backward()
    of_a_run = [(torch.ops.aten.sin.default, 1), (torch.ops.aten.add.Tensor, 2)]
    assert states == [of_a_run, of_a_run]


def raise_lookup_error(*args, **kwargs):
    raise LookupError("asked")


@pytest.mark.parametrize("form", [with_options, scope_with], ids=["function", "scope"])
@pytest.mark.parametrize(
    "policy",
    [
        policies.save_where(raise_lookup_error),
        policies.with_state(raise_lookup_error, save_the_first),
        policies.with_state(list, raise_lookup_error),
        raise_lookup_error,
    ],
    ids=["condition", "state", "decision", "function"],
)
def test_exceptions_of_a_policy_leave_the_region(form, policy):
    with pytest.raises(LookupError, match="asked"):
        form(policy=policy)(chain, leaf(4))
    form(policy=policies.save_nothing())(chain, leaf(4)).sum().backward()


@pytest.mark.parametrize(
    "make",
    [
        lambda: policies.save_where(3),
        lambda: policies.save_tagged(3),
        lambda: policies.with_state(list, None),
        lambda: policies.with_state([], save_the_first),
    ],
)
def test_arguments_of_policies(make):
    with pytest.raises(TypeError, match="should be"):
        make()


@pytest.mark.parametrize("form", [with_options, scope_with], ids=["function", "scope"])
def test_matmuls_computed_again(form):
    w = torch.randn(8, 8)

    def function(t):
        for _ in range(4):
            t = (t @ w).sin()
        return t

    for policy, matmuls in (
        (policies.save_nothing(), 4),
        (policies.every_nth_matmul(2), 2),
        (policies.save_matmuls(), 0),
        (policies.save_compute_intensive(), 0),
        (policies.for_region("another", [MM], policies.save_nothing()), 4),
    ):
        counts = counts_in_backward(form, policy, function, leaf(4, 8))
        assert counts["aten.mm.default"] == matmuls


def test_what_a_policy_is_told():
    asked = []

    def policy(context, op, *args, **kwargs):
        asked.append((context, op, args, kwargs))
        return CheckpointPolicy.PREFER_RECOMPUTE

    def function(t):
        with reprise.name_scope("outer"), reprise.name_scope("inner"):
            h = torch.addmm(t, t, t, beta=2)
        h = reprise.checkpoint_name(h.sum(0, keepdim=True), "total")
        return h.exp()

    x = leaf(3, 3)
    y = reprise.checkpoint(function, x, options=options_of(policy, name="block"))
    assert [op for _, op, _, _ in asked] == [
        ADDMM,
        torch.ops.aten.sum.dim_IntList,
        None,
        torch.ops.aten.exp.default,
    ]
    context, _, args, kwargs = asked[0]
    assert context.region == "block"
    assert list(context.scopes) == ["outer", "inner"]
    assert context.output_bytes == 36
    assert context.is_recompute is False
    assert torch.equal(context.op_output, torch.addmm(x, x, x, beta=2))
    assert kwargs == {"beta": 2}
    assert [tuple(arg.shape) for arg in args] == [(3, 3)] * 3
    assert asked[1][2][1:] == ([0], True)
    assert asked[2][0].name == "total"
    assert torch.equal(asked[1][0].op_output, context.op_output.sum(0, keepdim=True))
    y.sum().backward()
    assert len(asked) == 4, "a policy is asked in forward only"


@pytest.mark.parametrize("answer", [3, "MUST_SAVE", None, object(), 1.0, []])
def test_wrong_answers(answer):
    x = leaf(3)
    for form in (with_options, scope_with):
        with pytest.raises(TypeError, match="has to return a CheckpointPolicy or a bool"):
            form(policy=lambda *args, **kwargs: answer)(torch.sin, x)


def test_torchs_answers_and_torchs_contexts_are_accepted():
    x = leaf(3)
    assert CheckpointPolicy is torch.utils.checkpoint.CheckpointPolicy
    context_fn = functools.partial(
        torch.utils.checkpoint.create_selective_checkpoint_contexts,
        lambda *args, **kwargs: torch.utils.checkpoint.CheckpointPolicy.PREFER_SAVE,
    )
    y = reprise.checkpoint(chain, x, context_fn=context_fn)
    y.sum().backward()
    got, x.grad = x.grad, None
    chain(x).sum().backward()
    assert torch.equal(got, x.grad)


def test_torchs_contexts_have_our_semantics():
    """In torch's, the saved random operator shifts the numbers of the second dropout."""
    x = leaf(64)
    context_fn = functools.partial(
        torch.utils.checkpoint.create_selective_checkpoint_contexts,
        lambda context, op, *args, **kwargs: op is torch.ops.aten.rand_like.default,
    )

    def function(t):
        return torch.dropout((t * torch.rand_like(t)).sin(), 0.5, True).exp()

    def gradients(run):
        torch.manual_seed(1)
        y = run(function, x).sum()
        first = torch.autograd.grad(y, x, retain_graph=True)
        return [*first, *torch.autograd.grad(y, x)]

    expected = gradients(lambda f, t: f(t))
    got = gradients(functools.partial(reprise.checkpoint, context_fn=context_fn))
    assert all(map(torch.equal, got, expected))


def test_wrong_lists():
    for make in (
        reprise.create_selective_checkpoint_contexts,
        lambda operators: reprise.CheckpointOptions(policy=operators),
        lambda operators: policies.save_operators(*operators),
    ):
        with pytest.raises(ValueError, match="specific OpOverload"):
            make([torch.ops.aten.mm])
        with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
            make([3])
        with pytest.raises(ValueError, match="there is no such operator"):
            make(["aten::mmm"])


def test_exceptions_of_a_policy_arrive_and_leave_nothing():
    x = leaf(3)

    def policy(context, op, *args, **kwargs):
        raise KeyError("asked")

    for form in (with_options, scope_with):
        with pytest.raises(KeyError, match="asked"):
            form(policy=policy)(chain, x)
    assert_as_plain(lambda region: region(chain, x).sum(), [x], with_options())


def test_save_and_recompute_in_the_code():
    def marked(mark):
        def function(t):
            value = t.sin()
            h = mark(value)
            assert h is value
            return (h.exp() * h).sum()

        return function

    x = leaf(4)
    for mark, policy, sins in (
        (reprise.must_save, policies.save_nothing(), 0),
        (reprise.must_recompute, policies.save_everything(), 1),
        (lambda t: reprise.checkpoint_name(t, "h"), policies.save_named(["h"]), 0),
        (lambda t: reprise.checkpoint_name(t, "other"), policies.save_named(["h"]), 1),
    ):
        for form in (with_options, scope_with):
            counts = counts_in_backward(form, policy, marked(mark), x)
            assert counts["aten.sin.default"] == sins
    with pytest.raises(reprise.CheckpointError, match="save_nothing"):
        reprise.checkpoint(marked(reprise.must_save), x)
    both = with_options(policy=policies.save_nothing())
    with pytest.raises(reprise.CheckpointError, match="aten::sin"):
        both(lambda t: reprise.must_recompute(reprise.must_save(t.sin())).exp(), x)
    assert reprise.must_save(x) is x


def with_large_exp(t):
    h = t.sin()
    return h, h.repeat(4).exp()  # larger than h, which is therefore saved itself


def test_a_saved_result_that_is_modified():
    x = leaf(4)
    expected = torch.autograd.grad(x.sin().repeat(4).exp().sum(), x)[0]

    def run(region):
        h, y = region(with_large_exp, x)
        h.detach().mul_(2)
        return torch.autograd.grad(y.sum(), x)[0]

    with pytest.raises(reprise.MutationError, match="has been mutated.* aten::sin"):
        run(with_options(policy=["aten::sin"]))
    allowed = with_options(policy=["aten::sin"], allow_cache_entry_mutation=True)
    assert torch.equal(run(allowed), expected)
    context_fn = functools.partial(
        reprise.create_selective_checkpoint_contexts,
        ["aten::sin"],
        allow_cache_entry_mutation=True,
    )
    by_context = functools.partial(reprise.checkpoint, context_fn=context_fn)
    assert torch.equal(run(by_context), expected)


@pytest.mark.parametrize("kind", ["modified", "another operator", "another order"])
def test_errors_of_a_recomputation_under_a_policy_keep_their_type(kind):
    x = leaf(4)

    def function(t):
        if kind == "another operator" and reprise.is_recomputing():
            return t.cos().repeat(4).exp()
        if kind == "another order" and reprise.is_recomputing():
            return (t.sin() * t.repeat(1).exp()).repeat(4).exp()
        h = t.sin()
        made.append(h.detach())
        return h.repeat(4).exp()

    made = []
    y = with_options(policy=["aten::sin"])(function, x)
    if kind == "modified":
        made[0].mul_(2)
    with pytest.raises(reprise.MutationError if kind == "modified" else reprise.DeterminismError):
        y.sum().backward()


def test_names_that_match_nothing_are_reported():
    policy = policies.save_named(["typo", "h"])
    x = leaf(3)
    with_options(policy=policy)(
        lambda t: reprise.checkpoint_name(t.sin(), "h").exp(), x
    ).sum().backward()
    assert [entry for entry in policy.unmatched() if "typo" in entry]
    assert not [entry for entry in policy.unmatched() if entry == "h"]


def test_the_report_names_operators_and_decisions():
    x = leaf(4)
    with reprise.collect_memory_report():
        with_options(policy=["aten::sin"], name="reported")(
            lambda t: chain(t.tan()), x
        ).sum().backward()
    (region,) = reprise.memory_report().regions
    decisions = {op.name: (op.decision, op.calls) for op in region.operators}
    assert decisions["aten::sin"] == ("MUST_SAVE", 3)
    assert decisions["aten::tan"] == ("PREFER_RECOMPUTE", 1)
    assert "reported" in reprise.explain_policies()


def budget_chain(t):
    return t.sin().exp().tanh().sigmoid().cos()


def test_a_budget_policy_saves_within_its_bytes():
    policy = policies.BudgetPolicy(saved_bytes=2 * 4096)
    form = with_options(name="budgeted", policy=policy)
    x = leaf(1024)
    for _ in range(4):
        assert_as_plain(lambda region: region(budget_chain, x).sum(), [x], form)
    (run,) = policy.known_runs()
    assert isinstance(run, reprise.BudgetedRun)
    assert (run.region, run.runs, run.operators) == ("budgeted", 4, 5)
    assert run.limit_bytes == run.saved_bytes == 2 * 4096
    assert run.useful_bytes >= run.saved_bytes
    assert 0 < run.saved_seconds <= run.seconds
    assert "budgeted" in policy.explain()


def test_a_budget_policy_of_a_fraction_in_scopes_and_combined():
    everything = policies.BudgetPolicy(saved_fraction=1)
    combined = policies.first_match(everything, policies.save_nothing())
    x = leaf(64)
    for policy in (everything, combined, policies.BudgetPolicy(saved_fraction=0)):
        for form in (scope_with(policy=policy), with_options(policy=policy)):
            for _ in range(3):
                assert_as_plain(lambda region: region(budget_chain, x).sum(), [x], form)
    saved = {run.saved_bytes for run in everything.known_runs()}
    assert max(saved) > 0


@pytest.mark.parametrize(
    "options",
    [{}, {"saved_bytes": 1, "saved_fraction": 0.5}, {"saved_bytes": -1}, {"saved_fraction": 1.5}],
)
def test_a_budget_policy_takes_one_option_in_its_range(options):
    with pytest.raises(ValueError):
        policies.BudgetPolicy(**options)


def test_one_name_is_not_its_letters():
    def step(policy):
        def function(t):
            return reprise.checkpoint_name(t.sin(), "residual").exp()

        counts = counts_in_backward(with_options, policy, function, leaf(4))
        return counts["aten.sin.default"]

    assert step(policies.save_named("residual")) == step(policies.save_named(["residual"])) == 0
    assert step(policies.save_named("e")) == 1
    assert policies.save_named("typo").unmatched() == ["typo"]


def test_one_operator_is_a_list_of_one():
    for policy in ("aten::sin", ["aten::sin"], policies.offload("aten::sin")):
        counts = counts_in_backward(with_options, policy, lambda t: t.sin().exp(), leaf(4))
        assert counts["aten.sin.default"] == 0
    contexts = reprise.create_selective_checkpoint_contexts("aten::sin")
    assert contexts.policy.unmatched() == ["aten::sin"]
    with pytest.raises(ValueError, match="the closest names are aten::"):
        reprise.CheckpointOptions(policy="save_matmuls")
