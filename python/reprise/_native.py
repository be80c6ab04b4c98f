# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Finds the extension module that was compiled for the installed torch."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from reprise import _C as _C


def _load() -> Any:
    version = torch.__version__.split("+")[0]
    major, minor = version.split(".")[:2]
    name = f"_C_torch{major}{minor}"
    folder = pathlib.Path(__file__).parent
    if not any(folder.glob(f"{name}.*")):
        there = sorted(path.name.split(".")[0] for path in folder.glob("_C_torch*"))
        raise ImportError(
            f"this installation of reprise has no extension module for torch {version}, only "
            f"{', '.join(there) or 'none at all'}; install reprise again with that torch there, "
            "from its sources if need be"
        )
    return importlib.import_module(f"reprise.{name}")


if not TYPE_CHECKING:
    _C = sys.modules[f"{__package__}._C"] = _load()  # the name of its stub
