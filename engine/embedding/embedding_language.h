// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What the engine has to ask of another language whose code runs in regions, for a binding to set:
// its lock, and its exceptions.
#ifndef REPRISE_ENGINE_EMBEDDING_EMBEDDING_LANGUAGE_H_
#define REPRISE_ENGINE_EMBEDDING_EMBEDDING_LANGUAGE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include <exception>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/base/export.h"

namespace reprise::engine_internal {

// A tensor of a class of the language, without some of the tensors in which it has its elements.
class Assembly : public torch::CustomClassHolder {
 public:
  // Returns such a tensor with these in their places, without graph. On any thread.
  virtual at::Tensor make(const std::vector<at::Tensor>& parts) const = 0;
};

struct TakenApart {
  std::vector<at::Tensor> parts;
  c10::intrusive_ptr<Assembly> assembly;  // null if the class does not say how to make it again
};

// Functions may be null. A thread holds the language's lock while it runs the language's code. A
// node of the language reads its saved tensors with it, and may have to wait there for another
// thread's replay, which needs the lock to run the region's code.
struct EmbeddingLanguage {
  // Lets go of the lock; returns null if this thread does not hold it. Set with take_lock.
  void* (*release_lock)() noexcept = nullptr;
  // Takes the lock again, with what release_lock() has returned.
  void (*take_lock)(void* released) noexcept = nullptr;
  // Throws an exception with which a replay leaves the region's code, derived from std::exception,
  // that the language's code does not handle as an error. The region's code may end with any
  // exception then, see replay_has_stopped().
  void (*throw_early_stop)() = nullptr;
  // Throws the language's form of an error of ours that LibTorch is about to receive. Returns if
  // there is none.
  void (*throw_error)(const std::exception& error) = nullptr;
  // Returns the stack of the language's code on this thread, for people; empty if there is none.
  std::string (*describe_stack)() = nullptr;
  // Adds the tensors in which a tensor of a class of the language has its elements, at any depth.
  // Returns false if its class does not say.
  bool (*append_parts)(const at::Tensor& tensor, std::vector<at::Tensor>& parts) = nullptr;
  // Returns whether the class of such a tensor says what these are, and how to make a tensor of
  // them again.
  bool (*is_assembled)(const at::Tensor& tensor) noexcept = nullptr;
  // Takes such a tensor apart. is_part: of those tensors; what it refuses stays in the assembly.
  TakenApart (*take_apart)(const at::Tensor& tensor,
                           absl::FunctionRef<bool(const at::Tensor&)> is_part) = nullptr;
};

// `language` must live as long as the process. Null: none, as at first.
REPRISE_API void set_embedding_language(const EmbeddingLanguage* language) noexcept;
// Returns null if there is none.
const EmbeddingLanguage* embedding_language() noexcept;

// In a handler of an error of ours, which LibTorch would translate to one of its own: throws the
// language's form of it. Returns if there is none.
void throw_in_language(const std::exception& error);

// Returns whether the tensor's class is the language's, and operators on it are the language's
// code.
inline bool is_of_language(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

// As EmbeddingLanguage::append_parts. For such tensors.
bool append_parts(const at::Tensor& tensor, std::vector<at::Tensor>& parts);
// As EmbeddingLanguage::is_assembled and take_apart, likewise.
bool is_assembled(const at::Tensor& tensor);
TakenApart take_apart(const at::Tensor& tensor, absl::FunctionRef<bool(const at::Tensor&)> is_part);

// While alive, this thread does not hold the language's lock.
class [[nodiscard]] LanguageLockRelease {
 public:
  LanguageLockRelease() noexcept;
  ~LanguageLockRelease();
  LanguageLockRelease(const LanguageLockRelease&) = delete;
  LanguageLockRelease& operator=(const LanguageLockRelease&) = delete;

 private:
  const EmbeddingLanguage* const language_;
  void* const released_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_EMBEDDING_EMBEDDING_LANGUAGE_H_
