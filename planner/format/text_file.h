// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Whole files of text.
#ifndef REPRISE_PLANNER_FORMAT_TEXT_FILE_H_
#define REPRISE_PLANNER_FORMAT_TEXT_FILE_H_

#include <string>

#include "reprise/base/export.h"

namespace reprise::planner_internal {

// Replaces the file as a whole: a reader finds it as before or as after. Throws std::runtime_error
// if it cannot be written, and then leaves what was there.
REPRISE_API void write_file(const std::string& text, const std::string& path);

// Returns what is in the file. Throws std::runtime_error if it cannot be read.
REPRISE_API std::string read_file(const std::string& path);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_TEXT_FILE_H_
