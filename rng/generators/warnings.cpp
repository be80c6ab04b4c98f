// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/generators/warnings.h"

#include <c10/util/Exception.h>

namespace reprise::rng_internal {
namespace {

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown exception";
  }
}

}  // namespace

void warn_not_restored(c10::Device device, const std::exception_ptr& error) noexcept {
  try {
    TORCH_WARN(
        "[rng.fork] a generator was not set back to where it stood before the fork; the one on ",
        device, " refused: ", reason_of(error), "; set its seed before it is drawn from again");
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): a warning handler may throw, a destructor may not.
  }
}

void warn_not_kept(const std::string& name, c10::Device device,
                   const std::exception_ptr& error) noexcept {
  try {
    TORCH_WARN(
        "[rng.fork] where the named state '", name,
        "' stands was not kept, so its next fork draws the same numbers again; the generator "
        "on ",
        device, " refused: ", reason_of(error), "; reset() the tracker and add() it again");
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): a warning handler may throw, a destructor may not.
  }
}

}  // namespace reprise::rng_internal
