# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The Python snippets of README and docs run as they stand, or with the names of fragments."""

import functools
import pathlib
import re

import pytest
import reprise
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def snippets_in(language):
    return [
        pytest.param(text, id=f"{page.stem}:{number}")
        for page in PAGES
        for number, text in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)
        )
    ]


def names_of_fragments():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    return {
        "__name__": "__main__",
        "functools": functools,
        "torch": torch,
        "reprise": reprise,
        "block": model,
        "model": model,
        "train_one_step": lambda model: model(torch.ones(4, 8)).sum().backward(),
        "x": torch.ones(4, 8, requires_grad=True),
        "h": torch.ones(4, 8, requires_grad=True),
    }


@pytest.mark.parametrize("snippet", snippets_in("python"))
def test_a_snippet_runs(snippet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    exec(compile(snippet, "<snippet>", "exec"), names_of_fragments())


# Their libraries are not installed here.
@pytest.mark.parametrize("snippet", snippets_in("py"))
def test_a_snippet_for_another_library_is_python(snippet):
    compile(snippet, "<snippet>", "exec")


def test_there_are_snippets():
    assert len(snippets_in("python")) >= 10
