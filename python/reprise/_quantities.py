# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Amounts of memory as people write and read them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

__all__ = ["byte_unit", "bytes_text", "largest_unit", "parse_budget"]

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS |= {_letter: 1 << 10 * _power, f"{_letter}iB": 1 << 10 * _power}
    _UNITS[f"{_letter}B"] = 1000**_power


def largest_unit(amount: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Returns the first unit, of units from the largest down, of which there is at least one."""
    return next((unit for unit in units if abs(amount) >= unit[0]), units[-1])


def byte_unit(amount: float) -> tuple[float, str]:
    """Returns the size and the name of the largest binary unit of which there is at least one."""
    units = [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes")]
    return largest_unit(amount, units)


def bytes_text(amount: float) -> str:
    """Returns an amount of memory in its largest binary unit, with four digits."""
    size, name = byte_unit(amount)
    return f"{amount / size:.4g} {name}"


def parse_budget(text: str) -> int | float:
    """Returns bytes (6GiB, 512M of 1024, 25MB of 1000, 8B), or a number up to 1, a part, as a float.

    Raises:
        ValueError: For any other text.
    """
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([KMGT]?i?B?)", text.strip())
    if found is None or found[2] not in _UNITS:
        raise ValueError(
            f"{text!r} is no budget: write bytes, such as 6GiB or 512MiB, or a part of the memory "
            "of a plain step, such as 0.6"
        )
    number = float(found[1])
    is_part = not found[2] and number <= 1
    if number == 0 or not math.isfinite(number) or number * _UNITS[found[2]] > 1e18:
        raise ValueError(f"{text!r} is no budget: it should be above 0, and no more than there is")
    return number if is_part else round(number * _UNITS[found[2]])
