// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/modules/option_text.h"

#include <c10/util/StringUtil.h>

#include <type_traits>

namespace reprise::engine_internal {
namespace {

const char* check_name(DeterminismCheck check) {
  switch (check) {
    case DeterminismCheck::kNone:
      return "none";
    case DeterminismCheck::kValues:
      return "values";
    case DeterminismCheck::kCallback:
      return "callback";
    case DeterminismCheck::kMetadata:
      break;
  }
  return "metadata";
}

class OptionList {
 public:
  void add(bool is_given, const std::string& text) {
    if (is_given) {
      text_.append(text_.empty() ? "" : ", ").append(text);
    }
  }

  template <class T>
  void add(const char* name, const T& value, const T& usual) {
    if constexpr (std::is_same_v<T, bool>) {
      add(value != usual, c10::str(name, value ? "=true" : "=false"));
    } else {
      add(value != usual, c10::str(name, '=', value));
    }
  }

  std::string text() const { return text_.empty() ? "defaults" : text_; }

 private:
  std::string text_;
};

}  // namespace

std::string option_text(const CheckpointOptions& options) {
  const CheckpointOptions usual;
  OptionList list;
  list.add(static_cast<bool>(options.policy), "policy");
  list.add(options.input_store != nullptr, "input_store");
  list.add(options.context_fn != nullptr, "context_fn");
  list.add(options.replay == ReplayMode::kTape, "replay=tape");
  list.add("min_input_bytes", options.min_input_bytes, usual.min_input_bytes);
  list.add("preserve_rng_state", options.preserve_rng_state, usual.preserve_rng_state);
  list.add("early_stop", options.early_stop, usual.early_stop);
  list.add(options.determinism_check != usual.determinism_check,
           std::string("determinism_check=") + check_name(options.determinism_check));
  list.add("watch_operators", options.watch_operators, usual.watch_operators);
  list.add("debug", options.debug, usual.debug);
  list.add("allow_external_mutation", options.allow_external_mutation,
           usual.allow_external_mutation);
  list.add("copied_state_limit_bytes", options.copied_state_limit_bytes,
           usual.copied_state_limit_bytes);
  list.add("allow_cache_entry_mutation", options.allow_cache_entry_mutation,
           usual.allow_cache_entry_mutation);
  list.add("respect_saved_tensors_hooks", options.respect_saved_tensors_hooks,
           usual.respect_saved_tensors_hooks);
  list.add("prefetch_depth", options.prefetch_depth, usual.prefetch_depth);
  list.add("synchronize_boundary", options.synchronize_boundary, usual.synchronize_boundary);
  return list.text();
}

}  // namespace reprise::engine_internal
