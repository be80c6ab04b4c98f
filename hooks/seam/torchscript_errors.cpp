// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/torchscript_errors.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include <atomic>
#include <mutex>

namespace reprise::hooks_internal {
namespace {

struct Passing {
  std::mutex mutex;
  int exceptions = 0;  // that are to pass
  bool found = false;  // the flag as it was without them
};

// Never destroyed: exceptions may be alive when statics are destroyed.
Passing& passing() {
  static auto* const kPassing = new Passing;
  return *kPassing;
}

// Returns the flag's value before. LibTorch reads the flag when an exception arrives.
bool set_flag(bool value) {
  return std::atomic_ref(FLAGS_torch_jit_enable_rethrow_caught_exception).exchange(value);
}

class Token {
 public:
  Token() {
    const std::lock_guard lock(passing().mutex);
    if (passing().exceptions++ == 0) {
      passing().found = set_flag(true);
    }
  }
  ~Token() {
    const std::lock_guard lock(passing().mutex);
    if (--passing().exceptions == 0) {
      set_flag(passing().found);
    }
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
};

}  // namespace

std::shared_ptr<const void> pass_exceptions_through_torchscript() {
  return std::make_shared<const Token>();
}

}  // namespace reprise::hooks_internal
