# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What torch.autograd.graph.save_on_cpu costs: offload.cpp for Python."""

import argparse
import contextlib
import ctypes
import gc
import json
import sys
import time
import types

import torch
from models import make_gpt
from torch.autograd.graph import save_on_cpu

# As offload.cpp has them.
LAYERS = 10
ELEMENTS = 32 * 1024
KERNEL_US = 4000
COPY_MS = (2, 4, 8)
SHORT, LONG = 8, 136


class TestDevice:
    """The device of tests/testing/device, in this process."""

    name = "testdevice"

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.reprise_set_delays.argtypes = (ctypes.c_double, ctypes.c_double)
        self.library.reprise_register_device()
        # What save_on_cpu asks before it pins memory.
        module = types.SimpleNamespace(is_available=lambda: True)
        torch._register_device_module(self.name, module)

    def synchronize(self):
        self.library.reprise_wait_for_device()

    def set_delays(self, kernel_us, copy_bytes_per_us):
        self.library.reprise_set_delays(kernel_us, copy_bytes_per_us)


class Cpu:
    name = "cpu"

    def synchronize(self):
        pass


class Cuda:
    name = "cuda"

    def synchronize(self):
        torch.cuda.synchronize()


def variants(device):
    return {
        "none": contextlib.nullcontext,
        "save_on_cpu": lambda: save_on_cpu(
            pin_memory=device.name != "cpu", device_type=device.name
        ),
    }


def step_microseconds(context, forward, device):
    start = time.perf_counter()
    with context():
        loss = forward()
    loss.backward()
    device.synchronize()
    return (time.perf_counter() - start) * 1e6


def interleaved_steps(forward, device, rounds):
    steps = {}
    for number in range(rounds + 1):  # the first fills caches
        gc.collect()
        for name, context in variants(device).items():
            taken = step_microseconds(context, forward, device) / 1000
            if number > 0:
                steps.setdefault(name, []).append(taken)
    return steps


def chain(x, length):
    for _ in range(length):
        x = torch.tanh(x)
    return x.sum()


def steps_of_a_chain(device, rounds):
    x = torch.ones(ELEMENTS, device=device.name, requires_grad=True)
    result = []
    for copy_ms in COPY_MS:
        device.set_delays(KERNEL_US, ELEMENTS * 4 / (copy_ms * 1000))
        steps = interleaved_steps(lambda: chain(x, LAYERS), device, rounds)
        result.append({"copy_ms": copy_ms, "step_ms": steps})
    return result


def cost_of_a_saved_tensor(rounds):
    """Microseconds of one more, by variant: one figure a round."""
    device = Cpu()
    x = torch.ones(4, requires_grad=True)
    costs = {}
    for number in range(rounds + 1):  # the first fills caches
        gc.collect()
        for name, context in variants(device).items():
            short, long = (
                step_microseconds(context, lambda: chain(x, length), device)
                for length in (SHORT, LONG)
            )
            if number > 0:
                costs.setdefault(name, []).append((long - short) / (LONG - SHORT))
    return costs


def peaks(forward, device):
    result = {}
    for name, context in variants(device).items():
        device.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step_microseconds(context, forward, device)
        result[name] = torch.cuda.max_memory_allocated() - before
    return result


def measure_on_cuda(rounds):
    device = Cuda()
    torch.manual_seed(0)
    model = make_gpt(fused=True, large=True, device="cuda")

    def forward():
        h = model.enter()
        for block in model.blocks:
            h = block(h)
        return model.loss(h)

    steps = interleaved_steps(forward, device, rounds)
    return {"step_ms": steps, "peak_bytes": peaks(forward, device)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true", help="a GPT on a GPU")
    parser.add_argument("--rounds", type=int, default=7, help="timed steps of each variant")
    parser.add_argument("--library", help="the library that has the test device")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()
    gc.freeze()  # what the imports made is not looked through again
    if arguments.cuda:
        result = measure_on_cuda(arguments.rounds)
    else:
        device = TestDevice(arguments.library)
        result = {
            "chain": steps_of_a_chain(device, arguments.rounds),
            "saved_tensor_us": cost_of_a_saved_tensor(30 * arguments.rounds),
        }
    json.dump(result, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
