# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""DeepSpeed's configuration section `activation_checkpointing`, applied to all regions."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from reprise._native import _C

if TYPE_CHECKING:
    from reprise.stores import ActivationStore

Configuration = Mapping[str, Any] | str | os.PathLike[str]

__all__ = [
    "configuration_guard",
    "configure_checkpointing",
    "is_configured",
    "reset_configuration",
    "see_memory_usage",
]


def configure_checkpointing(
    config: Configuration, partitioned: ActivationStore | None = None
) -> None:
    """Applies to each region whose forward starts from now on and that has no `input_store`.

    After DeepSpeed's checkpointing.configure(); a second call replaces the first.

    Args:
        config: the path of a DeepSpeed configuration, or a dict: with the section
            `activation_checkpointing`, or the section alone. Of its keys, partition_activations,
            cpu_checkpointing and contiguous_memory_optimization (with number_checkpoints) choose a
            store for the inputs of regions; synchronize_checkpoint_boundary and profile are options
            of that name and the collection of a memory report.
        partitioned: `stores.partitioned(group)`, for partition_activations.

    Raises:
        ValueError: If a key is unknown, a value of another type, or keys contradict each other;
            with `partitioned` without partition_activations, or the reverse.
    """
    _C.configure_checkpointing(_as_json(config), partitioned)


def configuration_guard(
    config: Configuration, partitioned: ActivationStore | None = None
) -> AbstractContextManager[None]:
    """Context manager: as configure_checkpointing(), for regions of this thread; the innermost applies."""
    return _C.configuration_guard(_as_json(config), partitioned)


def is_configured() -> bool:
    """Returns whether configure_checkpointing() was called, and not reset since."""
    return _C.is_configured()


def reset_configuration() -> None:
    """Removes the configuration. Regions whose forward has run keep theirs."""
    _C.reset_configuration()


def see_memory_usage(message: str, force: bool = False) -> None:
    """Prints the message and memory_report() to the standard error stream.

    Only with `force`, or if a configuration with `profile` applies. After DeepSpeed's
    see_memory_usage().
    """
    _C.see_memory_usage(message, force)


def _as_json(config: Configuration) -> str:
    if isinstance(config, (str, os.PathLike)):
        return pathlib.Path(config).read_text(encoding="utf-8")
    return json.dumps(config)
