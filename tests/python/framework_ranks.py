# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Runs a function on ranks over Gloo, each a process of its own."""

import datetime
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def run_on_ranks(worker, *arguments, ranks=2):
    """Calls worker(rank, *arguments) on each rank; raises what the first failing rank raises."""
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = os.path.join(folder, "rendezvous")
        torch.multiprocessing.spawn(_run, (ranks, rendezvous, worker, arguments), nprocs=ranks)


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
