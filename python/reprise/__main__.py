# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""python -m reprise: runs a training script within a memory budget, or profiles it."""

from reprise._command import main

if __name__ == "__main__":
    main()
