# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The counter of CPU memory, which has to precede the tensors it counts, and checks of each test."""

import gc
import signal

import pytest
import reprise
import torch

reprise.install_cpu_memory_counter()
torch.set_num_threads(1)
# The jobs that a shell runs in the background, and the processes that they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """After each test the thread is as before it: no hooks, modes, or region that goes on."""
    yield
    gc.collect()
    assert not reprise.is_recomputing()
    assert torch.is_grad_enabled()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch._C._len_torch_function_stack() == 0
    x = torch.ones(1, requires_grad=True)
    y = x.sin()
    assert y.grad_fn._saved_self is x, "a region or saved-tensor hooks go on after the test"
