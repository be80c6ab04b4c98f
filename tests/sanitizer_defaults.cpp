// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors

// The sanitizers' options, compiled in so that it also holds for a test run by hand and for
// ctest's listing of the tests. The environment's ASAN_OPTIONS and so on come on top.

// The run-time library is a shared one: it finds what is not hidden.
#pragma GCC visibility push(default)
extern "C" {

// A request that is too large is to fail, as it does without a sanitizer.
const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:allocator_may_return_null=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1:halt_on_error=1"; }

// LibTorch and OpenMP are not instrumented: their atomics and their barriers are not seen, only the
// functions of the system that they call. Forked processes have threads of their own.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4:die_after_fork=0";
}

}  // extern "C"
#pragma GCC visibility pop
