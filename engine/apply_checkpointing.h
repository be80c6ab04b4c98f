// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: apply_checkpointing.h
//
// Wraps modules of an existing model so that their forward runs as a region: elements of
// torch::nn::Sequential containers, and modules declared as `Checkpointed`. Names of parameters,
// buffers and archive keys are unchanged, so archives load both ways.
//
// Not for a module that its parent calls as a member: declare it as `Checkpointed`
// (checkpointed.h), or call `checkpoint()` around it.
//
// Example:
//
//   reprise::apply_checkpointing(*model, [](const std::string& path, const torch::nn::Module& m) {
//     return m.as<BlockImpl>() != nullptr;
//   });
//
// Thread-safety: thread-compatible; do not call it while the model's forward runs.
#ifndef REPRISE_ENGINE_APPLY_CHECKPOINTING_H_
#define REPRISE_ENGINE_APPLY_CHECKPOINTING_H_

#include <cstddef>
#include <functional>
#include <string>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint_options.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace reprise {

// Makes each module that `predicate` accepts run its forward as a region, and returns how many
// modules that are.
//
// module: the root. Its submodules are visited as `named_modules()` lists them, parents first; the
//   root has the path "". A module inside an accepted one is asked for too: if accepted, it is a
//   region inside a region.
// predicate: called once a path. Of a wrapped module it gets the inner one.
// options: of each region; an empty name becomes the module's path.
//
// An accepted module is
// - a `Checkpointed` anywhere, or wrapped already: its options are set;
// - an element of a torch::nn::Sequential, whose forward has any signature of up to 8 arguments: it
//   is replaced there by a wrapper. Names, archive keys, train(), to(), zero_grad() and clone()
//   stay as they were; `Sequential::at<T>()`, `modules()` and `apply()` meet the wrapper, whose
//   inner module is `ptr(i)->as<reprise::CheckpointedModule>()->inner_module()`;
// - anything else: an error, because the holder that its parent calls cannot be replaced from here.
//
// Throws std::invalid_argument naming the path of such a module, or whatever `predicate` throws;
// then nothing has changed.
REPRISE_API std::int64_t apply_checkpointing(
    torch::nn::Module& module,
    const std::function<bool(const std::string& path, const torch::nn::Module& module)>& predicate,
    CheckpointOptions options = {});

}  // namespace reprise

#endif  // REPRISE_ENGINE_APPLY_CHECKPOINTING_H_
