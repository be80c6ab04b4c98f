# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""How tables are written."""

from tabulate import tabulate


def table(headers, rows):
    align = ["left"] + ["right"] * (len(headers) - 1)
    return tabulate(rows, headers, tablefmt="pipe", colalign=align, disable_numparse=True)
