# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Context managers around a region's code."""


def run_in(context, function, /, *args, **kwargs):
    with context:
        return function(*args, **kwargs)
