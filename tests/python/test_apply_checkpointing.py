# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""apply_checkpointing(): modules of a model become regions, in place."""

import copy
import pickle
import re

import pytest
import reprise
import torch
from helpers import assert_same, leaf, run_step
from torch import nn

BOTH = pytest.mark.parametrize("scope", [False, True])


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.calls = 0

    def forward(self, x, options=None, debug=False, early_stop=True, context_fn=None):
        self.calls += 1
        self.seen = (options, debug, early_stop, context_fn)
        return nn.functional.dropout(self.linear(x).tanh(), 0.5) + x


def make_model():
    return nn.Sequential(Block(), nn.ReLU(), nn.Sequential(Block(), Block()))


@BOTH
def test_bits_names_and_parameters(scope):
    model = make_model()
    model_with = copy.deepcopy(model)
    assert reprise.apply_checkpointing(model_with, Block, scope=scope) == ["0", "2.0", "2.1"]
    assert list(model_with.state_dict()) == list(model.state_dict())
    assert repr(model_with) == repr(model)
    x = leaf(4, 8)
    expected = run_step(lambda: model(x).sum(), [x, *model.parameters()])
    with reprise.collect_memory_report():
        got = run_step(lambda: model_with(x).sum(), [x, *model_with.parameters()])
    assert_same(got, expected)
    regions = reprise.memory_report().regions
    assert [region.name for region in regions] == ["0", "2.0", "2.1"]
    assert [region.runs for region in regions] == [1, 1, 1]
    assert all(region.replays for region in regions)
    assert model_with[0].calls == (1 if scope else 2)


@BOTH
def test_keywords_of_forward_are_those_of_the_module(scope):
    model = make_model()
    reprise.apply_checkpointing(model, Block, scope=scope)
    keywords = {"options": 1, "debug": True, "early_stop": False, "context_fn": 2}
    model[0](leaf(4, 8), **keywords).sum().backward()
    assert model[0].seen == (1, True, False, 2)


def test_ways_to_choose():
    for select, names in (
        ((Block, nn.ReLU), ["0", "1", "2.0", "2.1"]),
        (["2.1", "0"], ["0", "2.1"]),
        (lambda name, module: name.endswith(".linear"), ["0.linear", "2.0.linear", "2.1.linear"]),
        (lambda name, module: False, []),
        ("2.*", ["2.0", "2.0.linear", "2.1", "2.1.linear"]),
        ("2.[1-9]", ["2.1"]),
        ("linear", ["0.linear", "2.0.linear", "2.1.linear"]),
        ("Block", ["0", "2.0", "2.1"]),
        (re.compile(r"(\d+\.)?0"), ["0", "2.0"]),
        ([nn.ReLU, "2.1", re.compile("0")], ["0", "1", "2.1"]),
        ((nn.ReLU, nn.Conv2d), ["1"]),
        ((nn.ReLU, "2.1"), ["1", "2.1"]),
        ({"2.0": None, nn.ReLU: False}, ["2.0"]),
        ("", [""]),
    ):
        assert reprise.apply_checkpointing(make_model(), select) == names
    model = make_model()
    assert reprise.apply_checkpointing(model, ["0"]) == ["0"]
    assert reprise.apply_checkpointing(model, Block) == ["2.0", "2.1"]
    assert isinstance(model[0], Block)


def test_options_apply_to_each():
    model = make_model()
    options = reprise.CheckpointOptions(policy=reprise.policies.save_matmuls())
    reprise.apply_checkpointing(model, Block, options=options)
    with reprise.collect_memory_report():
        model(leaf(4, 8)).sum().backward()
    for region in reprise.memory_report().regions:
        replays = {op.name: op.replays for op in region.operators}
        assert replays["aten::addmm"] == 0
    assert options.name == ""


@BOTH
def test_copies_and_hooks(scope):
    model = make_model()
    reprise.apply_checkpointing(model, Block, scope=scope)
    fired = []
    model[0].register_forward_hook(lambda *_: fired.append("forward"))
    model[0].register_full_backward_hook(lambda *_: fired.append("backward"))
    x = leaf(4, 8)
    expected = run_step(lambda: model(x).sum(), [x])
    assert fired == ["forward", "backward"]
    assert_same(run_step(lambda: copy.deepcopy(model)(x).sum(), [x]), expected)


@BOTH
@pytest.mark.parametrize("protocol", range(1, pickle.HIGHEST_PROTOCOL + 1))
def test_modules_can_be_saved_whole(tmp_path, scope, protocol):
    model, x = make_model(), leaf(4, 8)
    options = reprise.CheckpointOptions(name="mine", early_stop=False)
    reprise.apply_checkpointing(model, Block, options=options, scope=scope)
    expected = run_step(lambda: model(x).sum(), [x])
    torch.save(model, tmp_path / "model.pt", pickle_protocol=protocol)
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert type(loaded[0]) is type(model[0])
    assert list(loaded.state_dict()) == list(model.state_dict())
    with reprise.collect_memory_report():
        assert_same(run_step(lambda: loaded(x).sum(), [x]), expected)
        assert {region.name for region in reprise.memory_report().regions} == {"mine"}
    options, is_scope = loaded[0]._reprise_region
    assert (options.early_stop, is_scope) == (False, scope)


def test_options_with_a_policy_cannot_be_saved(tmp_path):
    model = make_model()
    options = reprise.CheckpointOptions(policy=reprise.policies.save_matmuls())
    reprise.apply_checkpointing(model, Block, options=options)
    with pytest.raises(TypeError, match="with a policy, an input_store or a function"):
        torch.save(model, tmp_path / "model.pt")


@BOTH
def test_the_last_modules_may_stay(scope):
    model, x = make_model(), leaf(4, 8)
    expected = run_step(lambda: model(x).sum(), [x])
    chosen = reprise.apply_checkpointing(model, Block, scope=scope, keep_last=2)
    assert chosen == ["0"]
    assert_same(run_step(lambda: model(x).sum(), [x]), expected)
    assert reprise.apply_checkpointing(make_model(), Block, keep_last=5) == []
    with pytest.raises(ValueError, match="keep_last must not be negative"):
        reprise.apply_checkpointing(model, Block, keep_last=-1)


@BOTH
def test_regions_can_be_removed(scope):
    model, x = make_model(), leaf(4, 8)
    names = reprise.apply_checkpointing(model, Block, scope=scope)
    torch.manual_seed(0)
    loss = model(x).sum()
    assert reprise.remove_checkpointing(model) == names
    assert type(model[0]) is Block
    loss.backward()  # still a region's
    got = x.grad
    expected = run_step(lambda: model(x).sum(), [x])
    assert torch.equal(got, expected[1])
    with reprise.collect_memory_report():
        model(x).sum().backward()
    assert reprise.memory_report().regions == []
    assert reprise.remove_checkpointing(model) == []
    assert reprise.apply_checkpointing(model, Block, scope=scope) == names


def test_subclasses_that_call_forward_of_their_base():
    class Derived(Block):
        def forward(self, x):
            return super().forward(x).sin()

    model, x = Derived(), leaf(4, 8)
    expected = run_step(lambda: model(x).sum(), [x, *model.parameters()])
    reprise.apply_checkpointing(model, Block)
    assert_same(run_step(lambda: model(x).sum(), [x, *model.parameters()]), expected)


@BOTH
def test_compiled_models_run_their_regions_in_eager_mode(scope):
    model, x = make_model(), leaf(4, 8)
    expected = run_step(lambda: model(x).sum(), [x])
    reprise.apply_checkpointing(model, Block, scope=scope)
    compiled = torch.compile(model, backend="eager")
    with reprise.collect_memory_report():
        assert_same(run_step(lambda: compiled(x).sum(), [x]), expected)
    assert len(reprise.memory_report().regions) == 3


def test_a_name_is_one_name():
    assert reprise.apply_checkpointing(make_model(), "2.1") == ["2.1"]
    shared = Block()
    model = nn.Sequential(shared, nn.ReLU(), shared)
    assert reprise.apply_checkpointing(model, ["2"]) == ["0"]  # the same module


@pytest.mark.parametrize(
    "select, message",
    [
        (
            ["0", "lineer"],
            r"no module has this name; received 'lineer'; the closest names are .*linear",
        ),
        ("2.linear", r"the closest names are 0\.linear, 2\.0\.linear, 2\.1\.linear"),
        ({"routed_experts"}, r"received 'routed_experts'; see named_modules\(\)"),
        ("Blok", r"received 'Blok'; the closest names are Block"),
        ("2.*.lineer", r"received '2\.\*\.lineer'; the closest names are 2\.1\.linear"),
        (
            re.compile(r"2\.0\.lineer"),
            r"path is of this form; received .*closest names are 2\.0\.linear",
        ),
        (
            nn.Linear(1, 1).forward.__class__,
            r"no module is of this class; received builtins\.method",
        ),
        ((nn.Conv2d, nn.LeakyReLU), r"received torch.*Conv2d, torch.*LeakyReLU; "),
        (
            nn.LazyLinear,
            r"no module is of this class; received .*LazyLinear; the closest names are Linear",
        ),
        ({Block: None, "lineer": False}, r"received 'lineer'"),
    ],
)
def test_a_pattern_that_no_module_matches(select, message):
    model = make_model()
    with pytest.raises(ValueError, match=message):
        reprise.apply_checkpointing(model, select)
    assert reprise.remove_checkpointing(model) == []


def test_options_of_another_class():
    message = "have to be a CheckpointOptions; received a dict"
    for options in ({}, {"policy": None}):
        with pytest.raises(TypeError, match=message):
            reprise.apply_checkpointing(make_model(), Block, options=options)
        with pytest.raises(TypeError, match=message):
            reprise.checkpoint(torch.sin, torch.ones(2, requires_grad=True), options=options)
        with pytest.raises(TypeError, match=message):
            reprise.CheckpointScope(options)


def test_other_objects_are_no_patterns():
    with pytest.raises(TypeError, match="a class or a function; received a int: 3"):
        reprise.apply_checkpointing(make_model(), [Block, 3])
    with pytest.raises(TypeError, match="have to be a CheckpointOptions; received a bool"):
        reprise.apply_checkpointing(make_model(), {Block: True})


def chosen(model):
    """Returns the regions of a model, with the names of their options."""
    return {
        name: module._reprise_region[0].name
        for name, module in model.named_modules()
        if hasattr(module, "_reprise_region")
    }


@pytest.mark.parametrize("scope", [False, True])
def test_the_first_pattern_that_matches_gives_the_options(scope):
    model, x = make_model(), leaf(4, 8)
    expected = run_step(lambda: model(x).sum(), [x, *model.parameters()])
    one, other = (reprise.CheckpointOptions(name=name) for name in ("one", "other"))
    names = reprise.apply_checkpointing(
        model,
        {"2.0": one, "0": False, re.compile("2.*"): None, Block: one},
        options=other,
        scope=scope,
    )
    assert names == ["2", "2.0", "2.0.linear", "2.1", "2.1.linear"]
    assert chosen(model) == {name: "one" if name == "2.0" else "other" for name in names}
    assert_same(run_step(lambda: model(x).sum(), [x, *model.parameters()]), expected)


def test_every_kth_of_each_class():
    class Other(Block):
        pass

    model = nn.Sequential(*(kind() for _ in range(5) for kind in (Block, Other)))
    assert reprise.apply_checkpointing(copy.deepcopy(model), Block, every=2) == list("014589")
    names = reprise.apply_checkpointing(copy.deepcopy(model), Other, every=2, keep_last=1)
    assert names == ["1", "5"]
    names = reprise.apply_checkpointing(model, [str(i) for i in range(10)], every=3)
    assert names == ["0", "1", "6", "7"]
    with pytest.raises(ValueError, match="every must be positive; received 0"):
        reprise.apply_checkpointing(model, Block, every=0)


def test_a_table_of_what_was_chosen(capsys):
    model = make_model()
    with_policy = reprise.CheckpointOptions(
        policy=reprise.policies.save_matmuls(),
        input_store=reprise.stores.packed(),
        early_stop=False,
    )
    applied = reprise.apply_checkpointing(model, {"2.*0": with_policy, Block: None}, verbose=True)
    table = [
        "module  class  options",
        "0       Block  defaults",
        "2.0     Block  policy, input_store, early_stop=False",
        "2.1     Block  defaults",
    ]
    assert capsys.readouterr().out == "\n".join(table) + "\n"
    assert str(applied) == "\n".join(table)
    assert applied.rows[1] == {"path": "2.0", "class": "Block", "options": table[2][15:]}
    assert isinstance(applied, list) and repr(applied) == "['0', '2.0', '2.1']"
    again = reprise.apply_checkpointing(model, Block, scope=True)
    assert again == [] and str(again) == "module  class  options"
    root = reprise.apply_checkpointing(Block(), "", scope=True)
    assert str(root).splitlines()[1] == "(the model)  Block  scope"


def test_a_module_with_several_paths_matches_by_each():
    shared = Block()
    model = nn.ModuleDict({"first": shared, "second": shared})
    assert reprise.apply_checkpointing(model, "*second") == ["first"]
