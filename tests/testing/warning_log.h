// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Collects LibTorch's warnings instead of printing them.
#ifndef REPRISE_TESTS_TESTING_WARNING_LOG_H_
#define REPRISE_TESTS_TESTING_WARNING_LOG_H_

#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace reprise::testing {

// While alive, takes the warnings of this thread, also warnings that would appear only once per
// process.
class [[nodiscard]] WarningLog final : public c10::WarningHandler {
 public:
  WarningLog() : handling_(this) {}

  void process(const c10::Warning& warning) override { messages_.push_back(warning.msg()); }

  [[nodiscard]] const std::vector<std::string>& messages() const { return messages_; }

 private:
  c10::WarningUtils::WarningHandlerGuard handling_;
  c10::WarningUtils::WarnAlways always_;
  std::vector<std::string> messages_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_WARNING_LOG_H_
