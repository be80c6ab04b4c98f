# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A training step of a model under torch.utils.checkpoint: model_steps.cpp for Python."""

import argparse
import ctypes
import functools
import gc
import json
import sys
import time

import torch
from models import MODELS, make_model
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

SEED = 1  # of each step's random numbers
aten = torch.ops.aten

MATMULS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
COMPUTE_INTENSIVE = MATMULS | {
    aten.convolution,
    aten._scaled_dot_product_flash_attention_for_cpu,
}


def run_blocks(model, run):
    h = model.enter()
    for block in model.blocks:
        h = run(block, h)
    return model.loss(h)


def run_plainly(model):
    return run_blocks(model, lambda block, h: block(h))


def run_twice(model):
    run_plainly(model)
    return run_plainly(model)


def each_block(**options):
    region = functools.partial(checkpoint, use_reentrant=False, **options)
    return lambda model: run_blocks(model, region)


def saving(is_saved):
    """Regions that save the results of operators of which `is_saved(packet)` holds."""

    def policy(ctx, op, *args, **kwargs):
        if is_saved(op.overloadpacket):
            return CheckpointPolicy.PREFER_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return each_block(context_fn=contexts)


def every_second_matmul():
    seen = {False: 0, True: 0}  # by whether it is the recomputation that asks

    def policy(ctx, op, *args, **kwargs):
        if op.overloadpacket not in MATMULS:
            return CheckpointPolicy.PREFER_RECOMPUTE
        seen[ctx.is_recompute] += 1
        if seen[ctx.is_recompute] % 2 == 1:
            return CheckpointPolicy.PREFER_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def run_nested(model):
    half = len(model.blocks) // 2

    def run_half(blocks, h):
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return h

    h = model.enter()
    for blocks in (model.blocks[:half], model.blocks[half:]):
        h = checkpoint(run_half, blocks, h, use_reentrant=False)
    return model.loss(h)


FLOORS = {"floor": run_twice}
VARIANTS = {
    "none": run_plainly,
    **FLOORS,
    "full": each_block(),
    "selective": saving(lambda packet: packet in COMPUTE_INTENSIVE),
    "every-2nd-matmul": each_block(context_fn=every_second_matmul),
    "nested": run_nested,
}
# Measured for their bytes only. A policy that saves everything fails: dropout writes to a result
# that Python keeps.
MEMORY_VARIANTS = {
    "save-nothing": saving(lambda packet: False),
    "save-matmuls": saving(lambda packet: packet in MATMULS),
}


class Counter:
    """The bytes of the CPU allocator, counted as our own programs count theirs."""

    def __init__(self, library):
        counter = ctypes.CDLL(library)
        counter.reprise_current_bytes.restype = ctypes.c_int64
        counter.reprise_peak_bytes.restype = ctypes.c_int64
        counter.reprise_install_counter()
        self.current = counter.reprise_current_bytes
        self.peak = counter.reprise_peak_bytes
        self.reset_peak = counter.reprise_reset_peak


class Bench:
    def __init__(self, model, counter):
        self.model, self.counter = model, counter
        self.buffers = self.copies_of_buffers()
        # Where one thread does all of a step, only the time that it has a core counts.
        one_thread = torch.get_num_threads() == 1
        self.clock = time.CLOCK_THREAD_CPUTIME_ID if one_thread else time.CLOCK_MONOTONIC

    def copies_of_buffers(self):
        return [buffer.clone() for buffer in self.model.module.buffers()]

    def reset(self):
        self.model.module.zero_grad()
        for now, start in zip(self.model.module.buffers(), self.buffers):
            now.copy_(start)
        torch.manual_seed(SEED)

    def step_milliseconds(self, run, backward=torch.Tensor.backward):
        self.reset()
        gc.collect()
        start = time.clock_gettime(self.clock)
        backward(run(self.model))
        return (time.clock_gettime(self.clock) - start) * 1e3

    def outcome_of(self, run, backward=torch.Tensor.backward):
        """Bytes kept and at the peak of a step, gradients, buffers, loss."""
        self.reset()
        gc.collect()
        self.counter.reset_peak()
        before = self.counter.current()
        loss = run(self.model)
        kept = self.counter.current() - before
        backward(loss)
        peak = self.counter.peak() - before
        gradients = [p.grad.clone() for p in self.model.module.parameters()]
        return kept, peak, gradients, self.copies_of_buffers(), loss.item()


def have_equal_bits(first, second):
    def bits(tensor):
        return tensor.flatten().view(torch.uint8)

    return all(torch.equal(bits(a), bits(b)) for a, b in zip(first, second, strict=True))


def measure(bench, rounds):
    _, _, gradients, buffers, loss = bench.outcome_of(run_plainly)
    result = {"loss": loss, "variants": {}}
    for name, run in (VARIANTS | MEMORY_VARIANTS).items():
        entry = result["variants"][name] = {"step_ms": []}
        if name in FLOORS:
            bench.step_milliseconds(run)  # none of the timed ones is its first
            continue
        kept, peak, its_gradients, its_buffers, _ = bench.outcome_of(run)
        entry["kept_bytes"] = kept
        entry["peak_bytes"] = peak
        entry["gradients_equal"] = have_equal_bits(its_gradients, gradients)
        entry["buffers_equal"] = have_equal_bits(its_buffers, buffers)
    order = list(VARIANTS.items())
    for _ in range(rounds):
        for name, run in order:
            result["variants"][name]["step_ms"].append(bench.step_milliseconds(run))
        order.reverse()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--rounds", type=int, default=5, help="timed steps of each variant")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--counter", required=True, help="the library that counts bytes")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    gc.freeze()  # what the imports made is not looked through again
    bench = Bench(make_model(arguments.model), Counter(arguments.counter))
    json.dump(measure(bench, arguments.rounds), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
