// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: reprise.h
//
// The parts of Reprise that most programs need, in one include. It includes no header of torch::nn
// and none of c10d: wrappers for modules are in "reprise/engine/checkpointed.h", process groups in
// "reprise/partition/process_group.h".
//
// Not for a header that is itself included in many places: include the specific header there
// (usually "reprise/engine/checkpoint.h").
//
// Example:
//
//   #include "reprise/reprise.h"
//
//   at::Tensor y = reprise::checkpoint([&](const at::Tensor& x) { return block->forward(x); }, x);
//
// Thread-safety: see each header.
#ifndef REPRISE_REPRISE_H_
#define REPRISE_REPRISE_H_

#include "reprise/base/error.h"
#include "reprise/base/version.h"
#include "reprise/engine/activation_checkpointing_config.h"
#include "reprise/engine/apply_checkpointing.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/checkpoint_sequential.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/debug_mode.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/graph_exec_group.h"
#include "reprise/engine/keep.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/memory_report.h"
#include "reprise/engine/policy_bypass.h"
#include "reprise/engine/recomputing.h"
#include "reprise/engine/saved_tensors.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background_counters.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/hook_error.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#if __has_include("reprise/partition/partitioned_store.h")  // not without LibTorch's distributed
                                                            // part
#include "reprise/partition/launch_environment.h"
#include "reprise/partition/partition_error.h"
#include "reprise/partition/partitioned_store.h"
#endif
#include "reprise/planner/explain.h"
#include "reprise/planner/largest_batch.h"
#include "reprise/planner/memory_timeline.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "reprise/planner/trace.h"
#include "reprise/planner/trace_format.h"
#include "reprise/policies/budget_policy.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/policies/name_scope.h"
#include "reprise/policies/policies.h"
#include "reprise/policies/region_trace.h"
#include "reprise/rng/rng_fork_guard.h"
#include "reprise/rng/rng_state.h"
#include "reprise/rng/rng_state_tracker.h"

#endif  // REPRISE_REPRISE_H_
