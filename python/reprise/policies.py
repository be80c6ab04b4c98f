# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Ready policies: which results of operators regions save. None of them asks Python anything.

>>> policy = reprise.policies.first_match(
...     reprise.policies.offload(reprise.policies.save_attention()),
...     reprise.policies.every_nth_matmul(2))
>>> with reprise.CheckpointScope(policy=policy):
...     h = block(h)

Wherever a policy is taken, so is a list of operators to save, or a function
`policy(context, op, *args, **kwargs)`. Composite operators are seen as their parts: linear as
aten::addmm or aten::mm.
"""

from reprise._native import _C

Policy = _C.policies.Policy
save_everything = _C.policies.save_everything
save_nothing = _C.policies.save_nothing
save_matmuls = _C.policies.save_matmuls
save_attention = _C.policies.save_attention
save_compute_intensive = _C.policies.save_compute_intensive
save_operators = _C.policies.save_operators
save_named = _C.policies.save_named
every_nth_matmul = _C.policies.every_nth_matmul
offload = _C.policies.offload
keep_in = _C.policies.keep_in
first_match = _C.policies.first_match
override_with = _C.policies.override_with
for_region = _C.policies.for_region
