# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Finds the extension module that was compiled for the installed torch."""

import importlib
import pathlib

import torch


def _load():
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


_C = _load()
