# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""PyTorch's tests of checkpointing that fail on Reprise, for tools/upstream-tests."""

import typing


class Expectation(typing.NamedTuple):
    conformance: str  # the number in docs/semantics.md
    reason: str
    message: str  # a part of the failure's traceback


_NO_ERROR = "AssertionError: RuntimeError not raised"

EXPECTED_FAILURES = {
    "test_autograd.TestAutograd.test_checkpoint_detects_non_determinism": Expectation(
        "C037",
        "words: the message of debug mode says in its own how it was turned on, and what differs",
        "You are seeing this because debug mode is on",
    ),
    "test_autograd.TestAutograd.test_checkpoint_graph_execution_group": Expectation(
        "C043",
        "by design: backwards of a group that overlap recompute, and are no error",
        _NO_ERROR,
    ),
    "test_autograd.TestAutograd.test_checkpointing_without_reentrant_custom_function_works": (
        Expectation(
            "C006",
            "by design: a node may read its saved tensors twice",
            _NO_ERROR,
        )
    ),
    "test_autograd.TestAutograd.test_checkpointing_without_reentrant_with_context_fn": Expectation(
        "C017",
        "by design: modes see the operators of the region's code only, no detach",
        "The length of the sequences mismatch: 1 != 2",
    ),
    "test_autograd.TestSelectiveActivationCheckpoint.test_can_only_trigger_recompute_once": (
        Expectation(
            "C084",
            "by design: a second backward under a policy works",
            _NO_ERROR,
        )
    ),
    "test_autograd.TestSelectiveActivationCheckpoint.test_function_with_more_than_one_output": (
        Expectation(
            "C076",
            "by design: policies are asked in forward only, as in later versions of torch",
            "Expected 2 but got 1.",
        )
    ),
    "test_autograd.TestSelectiveActivationCheckpoint.test_policy_with_state": Expectation(
        "C076",
        "by design: policies are asked in forward only, as in later versions of torch",
        "The length of the sequences mismatch: 3 != 5",
    ),
    "test_autograd.TestSelectiveActivationCheckpoint.test_storage_lifetime": Expectation(
        "C077, C078",
        "internals: looks for saved tensors in a dispatch mode of torch's implementation",
        "None is not an instance of (<class 'torch.utils.checkpoint._CachingTorchDispatchMode'>",
    ),
    "test_autograd.TestSelectiveActivationCheckpoint.test_version_counter": Expectation(
        "C080, C081a",
        "by design: a write in place follows its parent, so the outcome of both is saved",
        _NO_ERROR,
    ),
}
