# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""DeepSpeed's configuration: which regions it applies to, and its errors."""

import json

import pytest
import reprise
import torch
from helpers import assert_as_plain, leaf, run_in_threads, with_options
from reprise import stores

PARTITIONED = {"partition_activations": True}


@pytest.fixture(autouse=True)
def unconfigured():
    yield
    reprise.reset_configuration()


def used_by_a_region(store, region=reprise.checkpoint):
    """Returns the bytes that one region over 128 floats has in the store, until its backward."""
    x = leaf(128)
    y = region(lambda t: t.sin().exp(), x * 2)
    used = store.counters()["used_bytes"]
    y.sum().backward()
    assert store.counters()["used_bytes"] == 0
    torch.testing.assert_close(x.grad, 2 * (2 * x).cos() * (2 * x).sin().exp())
    return used


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_applies_to_all_regions_until_it_is_reset(as_file, whole, tmp_path):
    store = stores.slab(min_bytes=1)
    config = (
        {"train_batch_size": 8, "activation_checkpointing": PARTITIONED} if whole else PARTITIONED
    )
    if as_file:
        path = tmp_path / "ds_config.json"
        path.write_text(json.dumps(config))
        config = path
    assert not reprise.is_configured()
    reprise.configure_checkpointing(config, store)
    assert reprise.is_configured()
    assert used_by_a_region(store) == 512
    assert used_by_a_region(store, with_options(name="named")) == 512
    assert used_by_a_region(store, with_options(input_store=stores.slab())) == 0
    on_thread = []
    run_in_threads([lambda: on_thread.append(used_by_a_region(store))])
    assert on_thread == [512]
    reprise.reset_configuration()
    assert not reprise.is_configured()
    assert used_by_a_region(store) == 0


def test_a_guard_is_for_its_block_and_thread():
    outer, inner = stores.slab(min_bytes=1), stores.slab(min_bytes=1)
    reprise.configure_checkpointing(PARTITIONED, outer)
    guard = reprise.configuration_guard(PARTITIONED, inner)
    assert used_by_a_region(inner) == 0
    with guard:
        assert (used_by_a_region(inner), used_by_a_region(outer)) == (512, 0)
        on_thread = []
        run_in_threads([lambda: on_thread.append(used_by_a_region(outer))])
        assert on_thread == [512]
    assert (used_by_a_region(inner), used_by_a_region(outer)) == (0, 512)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"cpu_checkpointing": True},
        {"contiguous_memory_optimization": True, "number_checkpoints": 2},
        {"synchronize_checkpoint_boundary": True, "profile": True},
    ],
)
def test_bits_are_those_of_the_plain_run(config):
    x = leaf(1024)

    def step(region):
        h = region(lambda t: torch.dropout(t.sin(), 0.5, True), x)
        return region(lambda t, *, scale: t.exp() * scale, h, scale=torch.tensor(2.0)).sum()

    def configured(function, *args, **kwargs):
        with reprise.configuration_guard(config):
            return reprise.checkpoint(function, *args, **kwargs)

    assert_as_plain(step, [x], configured)


def test_profile_collects_the_report_that_is_printed(capfd):
    x = leaf(4)
    reprise.see_memory_usage("unseen")
    with reprise.configuration_guard({"profile": True}):
        reprise.checkpoint(
            torch.sin, x, options=reprise.CheckpointOptions(name="profiled")
        ).sum().backward()
        reprise.see_memory_usage("after the step")
    reprise.see_memory_usage("by force", force=True)
    printed = capfd.readouterr().err
    assert "unseen" not in printed
    assert printed.index("after the step") < printed.index("profiled") < printed.index("by force")


@pytest.mark.parametrize(
    ("config", "store", "message"),
    [
        ({"partition_activation": True}, None, "partition_activation"),
        ({"cpu_checkpointing": 1}, None, "cpu_checkpointing"),
        (PARTITIONED, None, "there is no store that does it"),
        ({}, stores.slab(), "partition_activations is false"),
        ({"number_checkpoints": 2}, None, "contiguous_memory_optimization is false"),
    ],
)
def test_errors_name_the_key_and_change_nothing(config, store, message):
    with pytest.raises(ValueError, match=message):
        reprise.configure_checkpointing(config, store)
    assert not reprise.is_configured()
    with pytest.raises(ValueError, match=message), reprise.configuration_guard(config, store):
        pass
    with pytest.raises(FileNotFoundError):
        reprise.configure_checkpointing("/no/such/file.json")
