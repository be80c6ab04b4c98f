# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Functions with regions for torch.compile, and the graphs that it makes of them."""

import functools

import reprise
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from helpers import plain
from torch._dynamo.backends.common import aot_autograd
from torch.utils import checkpoint as torch_checkpoint


def block(x, weight, scale=2.0):
    return ((x @ weight).sin().cos() * scale).exp()


def compiled_step(function, leaves, **options):
    """Returns step(region): its loss is computed by one compiled function with the region in it."""

    def step(region):
        if region is plain:
            return function(plain, *leaves)
        return torch.compile(functools.partial(function, region), **options)(*leaves)

    return step


def model(region, x, weight):
    return region(block, region(block, x * 0.1, weight), weight, scale=0.5).sum()


def as_torch(function, *args, **kwargs):
    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)


def with_keywords(function, *args, **kwargs):
    return reprise.checkpoint(
        function,
        *args,
        use_reentrant=False,
        preserve_rng_state=True,
        determinism_check="none",
        debug=False,
        early_stop=False,
        respect_saved_tensors_hooks=True,
        **kwargs,
    )


class GraphRecorder:
    def __init__(self):
        self.forward = []
        self.backward = []

    def backend(self):
        """Returns a backend that runs graphs as they are, partitioned as inductor's are."""
        return aot_autograd(
            fw_compiler=lambda graph, _: self._record(graph, self.forward),
            bw_compiler=lambda graph, _: self._record(graph, self.backward),
            partition_fn=min_cut_rematerialization_partition,
        )

    def _record(self, graph, operators):
        operators.extend(
            str(node.target) for node in graph.graph.nodes if node.op == "call_function"
        )
        return make_boxed_func(graph.forward)


def graphs_of(run, leaves, **keywords):
    recorder = GraphRecorder()
    compiled = torch.compile(
        lambda x, weight: run(block, x, weight, **keywords).sum(),
        backend=recorder.backend(),
        fullgraph=True,
    )
    gradients = torch.autograd.grad(compiled(*leaves), leaves)
    return recorder, gradients
