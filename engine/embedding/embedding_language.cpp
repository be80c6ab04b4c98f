// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/embedding/embedding_language.h"

#include <atomic>

namespace reprise::engine_internal {
namespace {

std::atomic<const EmbeddingLanguage*> g_language{nullptr};

}  // namespace

void set_embedding_language(const EmbeddingLanguage* language) noexcept {
  g_language.store(language, std::memory_order_release);
}

const EmbeddingLanguage* embedding_language() noexcept {
  return g_language.load(std::memory_order_acquire);
}

void throw_in_language(const std::exception& error) {
  const EmbeddingLanguage* const language = embedding_language();
  if (language != nullptr && language->throw_error != nullptr) {
    language->throw_error(error);
  }
}

bool append_parts(const at::Tensor& tensor, std::vector<at::Tensor>& parts) {
  const EmbeddingLanguage* const language = embedding_language();
  return language != nullptr && language->append_parts != nullptr &&
         language->append_parts(tensor, parts);
}

bool is_assembled(const at::Tensor& tensor) {
  const EmbeddingLanguage* const language = embedding_language();
  return language != nullptr && language->is_assembled != nullptr &&
         language->take_apart != nullptr && language->is_assembled(tensor);
}

TakenApart take_apart(const at::Tensor& tensor,
                      absl::FunctionRef<bool(const at::Tensor&)> is_part) {
  return is_assembled(tensor) ? embedding_language()->take_apart(tensor, is_part) : TakenApart();
}

LanguageLockRelease::LanguageLockRelease() noexcept
    : language_(embedding_language()),
      released_(language_ != nullptr && language_->release_lock != nullptr
                    ? language_->release_lock()
                    : nullptr) {}

LanguageLockRelease::~LanguageLockRelease() {
  if (released_ != nullptr) {
    language_->take_lock(released_);
  }
}

}  // namespace reprise::engine_internal
