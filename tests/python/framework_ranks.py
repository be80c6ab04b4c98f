# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Runs a function on ranks over Gloo, each a process of its own."""

import datetime
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing

# A rank is forked from a process that has imported these, and has done nothing else: an import of
# its own takes a slow machine ten seconds for each rank of each case.
torch.multiprocessing.get_context("forkserver").set_forkserver_preload(
    [
        "reprise",
        "torch.distributed.fsdp",
        "torch.distributed.pipelining",
        "torch.distributed.tensor.parallel",
    ]
)


def run_on_ranks(worker, *arguments, ranks=2):
    """Calls worker(rank, *arguments) on each rank; raises what the first failing rank raises."""
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = os.path.join(folder, "rendezvous")
        arguments = (ranks, rendezvous, worker, arguments)
        torch.multiprocessing.start_processes(_run, arguments, ranks, start_method="forkserver")


def _run(rank, ranks, rendezvous, worker, arguments):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(minutes=3),  # a busy machine takes long to start a process
    )
    try:
        worker(rank, *arguments)
    finally:
        dist.destroy_process_group()
