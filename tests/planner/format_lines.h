// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Texts of the planner's formats, line by line, and the errors of their readers.
#ifndef REPRISE_TESTS_PLANNER_FORMAT_LINES_H_
#define REPRISE_TESTS_PLANNER_FORMAT_LINES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::testing {

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + '\n';
  }
  return text;
}

// Expects `read(text)` to throw an error whose message contains this one.
void expect_format_error(const auto& read, const std::string& text, const std::string& message) {
  try {
    read(text);
    ADD_FAILURE() << "no error: " << text;
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(message)) << text;
  }
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PLANNER_FORMAT_LINES_H_
