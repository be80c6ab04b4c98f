# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Context managers around a region's code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def run_in(
    context: AbstractContextManager[Any], function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    with context:
        return function(*args, **kwargs)
