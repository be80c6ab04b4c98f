# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""torch.compile: regions in compiled functions, compiled functions in regions."""

import functools
import warnings

import pytest
import reprise
import torch
import torch._dynamo
from framework_graphs import as_torch, block, compiled_step, graphs_of, model, with_keywords
from helpers import (
    FORMS,
    assert_as_plain,
    assert_same,
    leaf,
    operators_of,
    plain,
    run_script,
    run_step,
    scope_with,
    with_inductor,
    with_options,
)
from torch._dynamo import compiled_autograd
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import checkpoint as torch_checkpoint

pytestmark = pytest.mark.usefixtures("fresh_compiler")

BACKENDS = ("eager", "aot_eager")


@pytest.fixture
def leaves():
    return [leaf(4, 4), leaf(4, 4)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("region", [reprise.checkpoint, with_keywords, as_torch])
def test_regions_in_one_compiled_graph(region, backend, leaves):
    step = compiled_step(model, leaves, backend=backend, fullgraph=True)
    assert_as_plain(step, leaves, region)
    with reprise.patched_torch():
        torch._dynamo.reset()
        assert_as_plain(step, leaves, region)


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoint_sequential_in_one_compiled_graph(backend):
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    x = leaf(2, 4)

    def step(region):
        if region is plain:
            return layers(x).sum()
        run = functools.partial(reprise.checkpoint_sequential, layers, 2)
        return torch.compile(run, backend=backend, fullgraph=True)(x).sum()

    assert_as_plain(step, [x, *layers.parameters()], reprise.checkpoint_sequential)


def save_matmuls(context, op, *args, **kwargs):
    assert isinstance(context, reprise.SelectiveCheckpointContext)
    return op == torch.ops.aten.mm.default


OPERATORS = [torch.ops.aten.mm.default]
POLICIES = {
    "overloads": OPERATORS,
    "names": ["aten::mm", "aten::sum.dim_IntList"],
    "function": save_matmuls,
}


def test_the_compiler_recomputes_a_region_as_torchs(leaves):
    ours, gradients = graphs_of(reprise.checkpoint, leaves)
    theirs, _ = graphs_of(as_torch, leaves)
    assert ours.forward == theirs.forward
    assert ours.backward == theirs.backward
    # The recomputed product, and two for gradients.
    assert ours.backward.count("aten.mm.default") == 3
    without, expected = graphs_of(plain, leaves)
    assert without.backward.count("aten.mm.default") == 2
    assert all(map(torch.equal, gradients, expected))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("is_patched", [False, True], ids=["", "patched"])
def test_a_policy_reaches_the_partitioner(policy, is_patched, leaves):
    contexts = functools.partial(torch_checkpoint.create_selective_checkpoint_contexts, OPERATORS)
    theirs, expected = graphs_of(as_torch, leaves, context_fn=contexts)
    contexts = functools.partial(reprise.create_selective_checkpoint_contexts, policy)
    if is_patched:
        with reprise.patched_torch():
            ours, gradients = graphs_of(as_torch, leaves, context_fn=contexts)
    else:
        ours, gradients = graphs_of(reprise.checkpoint, leaves, context_fn=contexts)
    assert ours.forward == theirs.forward
    assert ours.backward == theirs.backward
    assert ours.backward.count("aten.mm.default") == 2  # those of gradients
    assert ours.backward.count("aten.sin.default") == 2  # one of them again
    assert all(map(torch.equal, gradients, expected))


def test_torchs_function_takes_a_policy(leaves):
    contexts = reprise.create_selective_checkpoint_contexts(OPERATORS)
    assert tuple(contexts) == (contexts[0], contexts[1])
    loss = as_torch(block, *leaves, context_fn=lambda: contexts).sum()
    _, counts = operators_of(loss.backward)
    assert (counts["aten.mm.default"], counts["aten.sin.default"]) == (2, 2)


@pytest.mark.parametrize(
    ("policy", "products"),
    [(None, 3), (["aten::mm"], 2), (reprise.policies.save_matmuls(), 2)],
    ids=["no policy", "list", "engine"],
)
def test_a_backend_that_runs_graphs_as_they_are_keeps_regions(policy, products, leaves):
    contexts = functools.partial(reprise.create_selective_checkpoint_contexts, policy)
    options = {} if policy is None else {"context_fn": contexts}

    def noisy(x, weight):
        return torch.nn.functional.dropout(block(x, weight), 0.5)

    def function(region, x, weight):
        return region(noisy, x * 0.1, weight).sum()

    region = functools.partial(reprise.checkpoint, **options)
    step = compiled_step(function, leaves, backend="eager", fullgraph=True)
    assert_as_plain(step, leaves, region)
    _, counts = operators_of(step(region).backward)
    assert (counts["aten.mm.default"], counts["aten.sin.default"]) == (products, 2)


def test_a_policy_of_the_engine_is_an_error_in_a_compiled_graph(leaves):
    contexts = functools.partial(
        reprise.create_selective_checkpoint_contexts, reprise.policies.save_matmuls()
    )
    step = compiled_step(
        lambda region, *args: region(block, *args, context_fn=contexts).sum(),
        leaves,
        backend="aot_eager",
    )
    ours = r"those of reprise\.policies are for regions in eager mode"
    older_torchs = r"UserDefinedObjectVariable\(Policy\) is not a constant"
    with pytest.raises(Exception, match=f"{ours}|{older_torchs}"):
        step(reprise.checkpoint)
    # Outside of the graph it is one as ever.
    assert_as_plain(
        lambda region: region(block, *leaves).sum(),
        leaves,
        functools.partial(reprise.checkpoint, context_fn=contexts),
    )


@pytest.mark.parametrize(
    "make",
    [reprise.CheckpointOptions, lambda **kw: reprise.CheckpointOptions(**kw).copy()],
    ids=["made", "copied"],
)
def test_options_without_a_policy_stay_in_the_graph(leaves, make):
    options = make(name="block", early_stop=False)

    def function(region, x, weight):
        if region is plain:
            return block(x * 0.1, weight).sum()
        return region(block, x * 0.1, weight, options=options).sum()

    step = compiled_step(function, leaves, backend="aot_eager", fullgraph=True)
    assert_as_plain(step, leaves, reprise.checkpoint)


def test_options_with_a_policy_take_a_region_out_of_the_graph(leaves):
    calls = []
    options = reprise.CheckpointOptions(policy=reprise.policies.save_nothing(), name="block")

    def counted(x, weight):
        calls.append(torch.compiler.is_compiling())
        return block(x, weight)

    def function(region, x, weight):
        if region is plain:
            return block(x * 0.1, weight).sum()
        return region(counted, x * 0.1, weight, options=options).sum()

    assert_as_plain(
        compiled_step(function, leaves, backend="aot_eager"), leaves, reprise.checkpoint
    )
    assert calls == [False, False]
    torch._dynamo.reset()
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match="if its options have a policy or a store"
    ):
        compiled_step(function, leaves, backend="aot_eager", fullgraph=True)(reprise.checkpoint)


block_calls = []


def breaking_block(x, weight):
    y = (x @ weight).sin()
    torch._dynamo.graph_break()
    block_calls.append(torch.compiler.is_compiling())
    return y.cos().exp()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("region", [reprise.checkpoint, as_torch])
@pytest.mark.parametrize("is_patched", [False, True], ids=["", "patched"])
def test_a_region_that_breaks_the_graph_runs_in_eager_mode(region, backend, is_patched, leaves):
    step = compiled_step(
        lambda region, x, weight: region(breaking_block, x * 0.1, weight).sum(),
        leaves,
        backend=backend,
    )
    expected = run_step(lambda: step(plain), leaves)
    block_calls.clear()
    with reprise.patched_torch() if is_patched else warnings.catch_warnings():
        assert_same(run_step(lambda: step(region), leaves), expected)
    # Neither the forward nor the recomputation is compiled: they would save other tensors.
    assert block_calls == [False, False]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_in_a_compiled_function(backend, leaves):
    def gradients(region, x, weight):
        loss = region(breaking_block, x * 0.1, weight).sum()
        return torch.autograd.grad(loss, (x, weight))

    expected = gradients(plain, *leaves)
    block_calls.clear()
    got = torch.compile(gradients, backend=backend)(reprise.checkpoint, *leaves)
    assert all(map(torch.equal, got, expected))
    assert block_calls == [False, False]


MORE_FORMS = {
    **FORMS,
    "function with a policy": with_options(policy=reprise.policies.save_matmuls()),
    "scope with a policy": scope_with(policy=reprise.policies.save_matmuls()),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", MORE_FORMS.values(), ids=MORE_FORMS)
def test_a_compiled_function_in_a_region(form, backend, leaves):
    def step(region):
        # Compiled anew: its first call, which compiles, is in the region.
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda x, weight: torch.dropout(block(x, weight), 0.5, True), backend=backend
        )
        h = region(compiled, leaves[0] * 0.1, leaves[1])
        return region(compiled, h, leaves[1]).sum()

    assert_as_plain(step, leaves, form)


@with_inductor
def test_inductors_kernels_in_regions(leaves):
    compiled = torch.compile(lambda x, weight: block(x, weight).sum())
    assert_as_plain(lambda region: region(compiled, *leaves), leaves, *FORMS.values())


@with_inductor
def test_a_kernel_of_inductor_that_saves_its_result(leaves):
    compiled = torch.compile(block)
    assert_as_plain(lambda region: region(compiled, *leaves).sum(), leaves, reprise.checkpoint)


@with_inductor
def test_regions_in_inductors_graphs(leaves):
    bare = torch.compile(functools.partial(model, plain), fullgraph=True)
    expected = run_step(lambda: bare(*leaves), leaves)
    step = compiled_step(model, leaves, fullgraph=True)
    assert_same(run_step(lambda: step(reprise.checkpoint), leaves), expected)


def scoped(region, x, weight):
    if region is plain:
        return block(x * 0.1, weight).sum()
    with reprise.CheckpointScope():
        y = block(x * 0.1, weight)
    return y.sum()


def decorated(region, x, weight):
    return (block if region is plain else reprise.CheckpointScope()(block))(x, weight).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [scoped, decorated])
def test_a_scope_in_a_compiled_function_breaks_the_graph(function, backend, leaves):
    assert_as_plain(
        compiled_step(function, leaves, backend=backend), leaves, reprise.CheckpointScope
    )
    torch._dynamo.reset()
    step = compiled_step(function, leaves, backend=backend, fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        step(reprise.CheckpointScope)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_compiled_autograd_is_an_error(form, leaves):
    loss = form(block, *leaves).sum()
    with (
        compiled_autograd._enable(torch.compile(backend="eager")),
        pytest.raises(
            RuntimeError, match="Compiled Autograd only supports python saved tensor hooks"
        ),
    ):
        loss.backward()
    assert [x.grad for x in leaves] == [None, None]
    assert_as_plain(lambda region: region(block, *leaves).sum(), leaves, form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_other_tracers_see_the_recomputation_or_none(form, leaves):
    def gradients(x, weight):
        return torch.autograd.grad(form(block, x, weight).sum(), (x, weight))

    expected = torch.autograd.grad(block(*leaves).sum(), leaves)
    graph = make_fx(gradients)(*leaves)
    assert all(map(torch.equal, graph(*leaves), expected))
    module = torch.nn.Module()
    module.forward = functools.partial(form, block)
    exported = torch.export.export(module, tuple(leaves), strict=False)
    assert torch.equal(exported.module()(*leaves), block(*leaves))


def test_torch_dynamo_is_not_imported_for_regions():
    output = run_script("""
        import sys
        x = torch.ones(3, requires_grad=True)
        reprise.checkpoint(torch.sin, x).sum().backward()
        with reprise.CheckpointScope(policy=reprise.policies.save_matmuls()):
            y = x.sin()
        y.sum().backward()
        print("torch._dynamo" in sys.modules)
    """)
    assert output.strip() == "False"


def test_code_that_asks_whether_the_compiler_exists():
    """transformers and others do; torch._dynamo is imported later, by torch.compile."""
    output = run_script(
        """
        import importlib.util
        import sys
        assert importlib.util.find_spec("torch._dynamo") is not None
        assert "torch._dynamo" not in sys.modules
        linear = torch.nn.Linear(8, 8)
        compiled = torch.compile(torch.nn.Sequential(linear, torch.nn.GELU()), backend="aot_eager")
        x = torch.randn(3, 8, requires_grad=True)
        options = reprise.CheckpointOptions(policy=reprise.policies.save_matmuls())
        reprise.checkpoint(lambda t: compiled(t).sin(), x, options=options).sum().backward()
        handler = sys.modules["torch._dynamo"].callback.callback_handler
        print(handler.install_callbacks.__name__)
    """,
        timeout=300,
    )
    assert output.strip() == "install_hidden"
