// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What sections of a text have in common: a header with the name of the format and its version,
// then an object per line, without the members that have their default value.
#ifndef REPRISE_PLANNER_FORMAT_RECORDS_H_
#define REPRISE_PLANNER_FORMAT_RECORDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "reprise/planner/format/json_record.h"
#include "reprise/planner/format/trace_section.h"

namespace reprise::planner_internal {

inline constexpr int kFormatVersion = 1;

// Calls `visitor(record)` for the object of each line after the header, and `header(record)` for
// that.
void for_each_record(Section section, std::string_view format, const auto& header,
                     const auto& visitor) {
  bool is_header = true;
  std::string_view text = section.text;
  for (std::size_t line = section.line; is_header || !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    JsonRecord record(text.substr(0, end), line);
    if (is_header) {
      if (record.string("format", "") != format) {
        record.fail("is not the header of a " + std::string(format));
      }
      if (const auto version = record.integer<std::int64_t>("version", 0);
          version != kFormatVersion) {
        record.fail("has version " + std::to_string(version) + ", not " +
                    std::to_string(kFormatVersion));
      }
      header(record);
    } else {
      visitor(record);
    }
    record.finish();
    is_header = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

template <typename Member>
void add_unless(Json& object, const char* key, const Member& member, const Member& otherwise) {
  if (member != otherwise) {
    object[key] = member;
  }
}

inline void check_number(JsonRecord& record, const char* key, std::size_t expected) {
  if (record.integer<std::int64_t>(key, -1) != static_cast<std::int64_t>(expected)) {
    record.fail("is not " + std::string(key) + ' ' + std::to_string(expected));
  }
}

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_RECORDS_H_
