// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: apply_checkpointing.h
//
// Makes modules of an existing model run their forward as a region: elements of
// torch::nn::Sequential containers, modules declared as `Checkpointed`, and your own modules
// derived from `CheckpointedModule`, wherever they are. Names of parameters, buffers and archive
// keys are unchanged, so archives load both ways.
//
// Not for a module of LibTorch that its parent calls as a member: declare it as `Checkpointed`
// (checkpointed.h), or call `checkpoint()` around it.
//
// Example:
//
//   reprise::apply_checkpointing(*model, reprise::modules_named({"Block", "decoder.*.mlp"}),
//                                {.policy = reprise::policies::save_compute_intensive()});
//
//   // Options per pattern, and every second of the blocks:
//   const auto applied = reprise::apply_checkpointing(
//       *model, {{reprise::modules_named({"*.attention"}), attention_options},
//                {reprise::modules_matching("blocks\\.[0-9]+")}},
//       {.every = 2});
//   std::cout << applied.to_string();
//
// Thread-safety: thread-compatible; do not call it while the model's forward runs.
#ifndef REPRISE_ENGINE_APPLY_CHECKPOINTING_H_
#define REPRISE_ENGINE_APPLY_CHECKPOINTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint_options.h"

namespace torch::nn {
class Module;
class SequentialImpl;
}  // namespace torch::nn

namespace reprise {

class CheckpointedModule;

using ModulePredicate =
    std::function<bool(const std::string& path, const torch::nn::Module& module)>;

// Returns a predicate that accepts a module if one of the patterns matches
// - its path, such as "decoder.0.mlp", with `*`, `?` and `[...]` as in a shell (a `*` crosses
// dots);
// - the last name of its path, "mlp";
// - or its type's name without namespaces, "Block" or "BlockImpl".
//
// apply_checkpointing() and remove_checkpointing() throw for a pattern that matches no module, with
// the closest names.
//
// As Megatron-LM's `recompute_modules`; with `input_store` in the options, its `offload_modules`.
[[nodiscard]] REPRISE_API ModulePredicate modules_named(std::vector<std::string> patterns);

// Returns a predicate that accepts a module if the whole of its path is of the form of the regular
// expression, in ECMAScript's grammar (std::regex): R"(decoder\.\d+\.mlp)". An expression that
// matches no module is an error, as above. Throws: std::invalid_argument if it is not valid.
[[nodiscard]] REPRISE_API ModulePredicate modules_matching(const std::string& expression);

// Makes each module that `predicate` accepts run its forward as a region, and returns how many
// modules that are.
//
// module: the root. Its submodules are visited as `named_modules()` lists them, parents first; the
//   root has the path "". A module inside an accepted one is asked for too: if accepted, it is a
//   region inside a region.
// predicate: called once a path.
// options: of each region; an empty name becomes the module's path.
// keep_last: the number of accepted modules, the last ones in the order of the visit, that run
//   plainly: backward asks for their tensors immediately.
//
// An accepted module is
// - a `CheckpointedModule`, such as a `Checkpointed`, anywhere: its options are set. A module of
//   your own has to begin the region in its forward, see checkpointed_module.h;
// - an element of a torch::nn::Sequential, whose forward has any signature of up to 8 arguments:
//   Sequential::forward() then runs it as a region. Everything else meets the module itself, as
//   before: `modules()`, `apply()`, `ptr(i)`, `seq[i]->as<T>()`, whose forward is no region;
//   `at<T>(i)` and `ptr<T>(i)` throw a c10::Error that names CheckpointedElement. clone() keeps
//   the region;
// - anything else: an error, because the holder that its parent calls cannot be replaced from here.
//
// Throws: std::invalid_argument naming the path of such a module, or a pattern of modules_named()
//   or modules_matching() that matches none, or for a negative `keep_last`; exceptions of
//   `predicate`; then nothing has changed.
REPRISE_API std::int64_t apply_checkpointing(torch::nn::Module& module,
                                             const ModulePredicate& predicate,
                                             const CheckpointOptions& options = {},
                                             std::int64_t keep_last = 0);

// Modules, and the options of their regions; none: they run plainly.
struct ModuleRule {
  ModulePredicate predicate;
  std::optional<CheckpointOptions> options = CheckpointOptions();
};

// Which of the modules that have options are regions. The others run plainly.
struct ModuleChoice {
  // The number of modules, the last ones in the order of the visit, that run plainly.
  std::int64_t keep_last = 0;

  // Of the rest, the first one of each type is a region, and each `every`-th one of that type after
  // it, in the order of the visit.
  std::int64_t every = 1;
};

// The regions that apply_checkpointing() has made, in the order of the visit.
struct CheckpointedModules {
  struct Row {
    std::string path;     // the first one, of a module that has several
    std::string type;     // without namespaces, "BlockImpl"
    std::string options;  // those that differ from the defaults, "policy, early_stop=false"
  };
  std::vector<Row> rows;

  // Returns a table with a line for each module.
  [[nodiscard]] REPRISE_API std::string to_string() const;
};

// The same with several rules: the first one whose predicate accepts a module applies to it.
// Predicates after that one are not called for the path.
//
// Throws: std::invalid_argument as above, or if `every` is not positive; then nothing has changed.
REPRISE_API CheckpointedModules apply_checkpointing(torch::nn::Module& module,
                                                    const std::vector<ModuleRule>& rules,
                                                    const ModuleChoice& choice = {});

// Makes each module that `predicate` accepts run plainly, and returns how many of them were
// regions. predicate: as above; by default all modules. Throws: as above.
REPRISE_API std::int64_t remove_checkpointing(torch::nn::Module& module,
                                              const ModulePredicate& predicate = {});

// Returns the element, to change its options; null if it is no region. The pointer is valid until
// the element is replaced.
//
// Throws: std::out_of_range.
[[nodiscard]] REPRISE_API CheckpointedModule* checkpointed_element(
    torch::nn::SequentialImpl& sequential, std::size_t index);

}  // namespace reprise

#endif  // REPRISE_ENGINE_APPLY_CHECKPOINTING_H_
