# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Reprise in a Python process: its engine and Python's answer side by side.

Usage: python_chain_test.py PROBE_LIBRARY LIBTORCH_FOLDER
Exits with 77 if this Python has no torch, or another one than the probe was built with.
"""

import ctypes
import os
import sys

SKIPPED = 77


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, expected {expected!r}")


def main(probe_library, libtorch):
    try:
        import torch
    except ImportError as error:
        print(f"skipped: this Python cannot import torch: {error}")
        return SKIPPED
    if not os.path.samefile(os.path.dirname(torch.__file__), libtorch):
        print(f"skipped: this Python's torch is not the LibTorch in {libtorch}")
        return SKIPPED
    probe = ctypes.CDLL(probe_library)

    check("runs of a region after import torch", probe.reprise_probe_region(), 2)

    # Python's own hooks go on working behind our engine.
    packed = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor

    x = torch.linspace(-1, 1, 3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = x.sin().exp()
        check("tensors packed by Python's hooks", packed, [(3,), (3,)])
        # A region's input goes through the hooks around it, and its saved tensors do not.
        packed.clear()
        check("runs of a region under Python's hooks", probe.reprise_probe_region(), 2)
        # The plain run that the probe compares with saves two more.
        check("tensors that C++ saved under them", packed, [(8,)] * 3)
    y.sum().backward()
    check("Python's gradient", torch.equal(x.grad, x.detach().cos() * x.detach().sin().exp()), True)

    # Python's checkpoint, with ours loaded.
    from torch.utils.checkpoint import checkpoint

    runs = []

    def region(tensor):
        runs.append(1)
        return tensor.sin().sin()

    checkpoint(region, x, use_reentrant=False).sum().backward()
    check("runs of Python's region", len(runs), 2)
    check("runs of a region at last", probe.reprise_probe_region(), 2)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
