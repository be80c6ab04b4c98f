# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Steps of small models in each kind of region, for the compiler to optimise the module by.

tools/wheel runs this with an instrumented module. The models are small, so that the library's own
code takes most of the time.
"""

import functools

import reprise
import torch
from torch import nn

STEPS = 100
WIDTH = 16


def make_models():
    attention = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True)
    mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))
    convolution = nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU())
    recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True)
    return [attention, mlp, convolution, lambda x: recurrent(x)[0]]


def in_scope(options, function, *args):
    with reprise.CheckpointScope(options):
        return function(*args)


def make_regions():
    """Returns ways to run a function, each a kind of region."""
    policies = reprise.policies
    for policy in (
        None,
        policies.save_nothing(),
        policies.save_everything(),
        policies.save_matmuls(),
        policies.save_compute_intensive(),
        lambda context, op, *args, **kwargs: op is torch.ops.aten.addmm.default,
    ):
        options = reprise.CheckpointOptions(policy=policy)
        yield functools.partial(reprise.checkpoint, options=options)
        yield functools.partial(in_scope, options)
    for keywords in ({"replay": "tape"}, {"early_stop": False}, {"determinism_check": "values"}):
        yield functools.partial(reprise.checkpoint, options=reprise.CheckpointOptions(**keywords))
    nested = reprise.checkpoint
    yield lambda function, *args: nested(lambda *inner: nested(function, *inner), *args)


def train(run, model, steps):
    x = torch.randn(4, 8, WIDTH, requires_grad=True)
    for _ in range(steps):
        h = x
        for _ in range(4):
            h = run(model, h)
        h.square().mean().backward()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    models = make_models()
    for run in make_regions():
        for model in models:
            train(run, model, STEPS)
    for store in (reprise.stores.packed(min_bytes=1), reprise.stores.slab(min_bytes=1)):
        with reprise.store_guard(store):
            train(reprise.checkpoint, models[1], STEPS)
    budget = reprise.MemoryBudget(max_overhead=0.3)
    for _ in range(5):
        with budget.step():
            loss = models[0](torch.randn(4, 8, WIDTH)).square().mean()
        loss.backward()


if __name__ == "__main__":
    main()
