# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Breaks cycles through regions, which Python's collector cannot see, at each full collection."""

from __future__ import annotations

import gc

from reprise._native import _C

__all__ = ["install"]

_OLDEST = 2


def _begin(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] == _OLDEST:
        _C.release_unreachable_results()


def install() -> None:
    if _begin not in gc.callbacks:
        gc.callbacks.append(_begin)
