// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/report/stack_trace.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "reprise/engine/embedding/embedding_language.h"

namespace reprise::engine_internal {

c10::Backtrace stack_trace() {
  constexpr std::size_t kFramesToSkip = 4;
  const EmbeddingLanguage* const language = embedding_language();
  std::string text = language != nullptr && language->describe_stack != nullptr
                         ? language->describe_stack()
                         : std::string();
  if (text.empty()) {
    return c10::get_lazy_backtrace(kFramesToSkip);
  }
  return std::make_shared<c10::PrecomputedLazyValue<std::string>>(std::move(text));
}

}  // namespace reprise::engine_internal
