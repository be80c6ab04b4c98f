// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/ambient/compute_modes.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <limits>

#include "reprise/engine/ambient/math_modes.h"

namespace reprise::engine_internal {
namespace {

bool are_same(const MathModes::Ptr& a, const MathModes::Ptr& b) {
  return a == b || (a && b && *a == *b);
}

// LibTorch has a setter, but no getter.
bool flushes_denormals_here() {
  const volatile float smallest_normal = std::numeric_limits<float>::min();
  return smallest_normal * 0.5F == 0.0F;
}

// Returns null if the process has no such function.
template <class Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// at::set_num_threads() also sets the initial value of threads created later. OpenMP and MKL have a
// number per thread.
void set_num_threads_here(int count) {
  static auto* const kOfOpenMp = find_function<void(int)>("omp_set_num_threads");
  static auto* const kOfMkl = find_function<int(int)>("MKL_Set_Num_Threads_Local");
  if (kOfOpenMp != nullptr) {
    kOfOpenMp(count);
    if (kOfMkl != nullptr) {
      kOfMkl(count);
    }
  }
  if (at::get_num_threads() != count) {
    at::set_num_threads(count);
  }
}

}  // namespace

ComputeModes ComputeModes::current() {
  ComputeModes modes;
  modes.math_ = MathModes::current();
  modes.num_threads_ = at::get_num_threads();
  modes.flushes_denormals_ = flushes_denormals_here();
  return modes;
}

bool ComputeModes::is_current(bool elementwise) const {
  return num_threads_ == at::get_num_threads() && flushes_denormals_ == flushes_denormals_here() &&
         (elementwise || math_->is_current());
}

void ComputeModes::apply_over(const ComputeModes& present) const {
  if (!are_same(math_, present.math_)) {
    math_->apply_over(*present.math_);
  }
  if (num_threads_ != present.num_threads_) {
    set_num_threads_here(num_threads_);
  }
  if (flushes_denormals_ != present.flushes_denormals_) {
    at::globalContext().setFlushDenormal(flushes_denormals_);
  }
}

bool operator==(const ComputeModes& a, const ComputeModes& b) {
  return are_same(a.math_, b.math_) && a.num_threads_ == b.num_threads_ &&
         a.flushes_denormals_ == b.flushes_denormals_;
}

}  // namespace reprise::engine_internal
