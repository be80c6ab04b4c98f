# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The counter of CPU memory, which has to precede the tensors it counts, and checks of each test."""

import gc
import signal
import warnings

import pytest
import reprise
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

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


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Dynamo does not know how to trace")
        yield
    torch._dynamo.reset()


@pytest.fixture
def mesh(tmp_path):
    """One rank, of gloo."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1
    )
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()
