// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One line of a file in JSON Lines, read with care: each member is known, there once, and of the
// type that is expected.
#ifndef REPRISE_PLANNER_FORMAT_JSON_RECORD_H_
#define REPRISE_PLANNER_FORMAT_JSON_RECORD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::planner_internal {

using Json = nlohmann::ordered_json;

// The object of one line. Its members are taken one by one; those left at the end are unknown.
class JsonRecord {
 public:
  // Throws std::invalid_argument unless `text` is an object without objects inside.
  JsonRecord(std::string_view text, std::size_t line) : line_(line) {
    try {
      object_ = Json::parse(text.begin(), text.end(),
                            [this](int depth, Json::parse_event_t event, const Json& parsed) {
                              check(depth, event, parsed);
                              return true;
                            });
    } catch (const Json::parse_error& error) {
      fail("is not JSON at byte " + std::to_string(error.byte));
    } catch (const Json::exception&) {
      fail("has a number that is too large");
    }
    if (!object_.is_object()) {
      fail("is not an object");
    }
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument("line " + std::to_string(line_) + ' ' + reason);
  }

  bool has(const char* key) const { return object_.contains(key); }

  template <typename Integer>
  Integer integer(const char* key, Integer otherwise) {
    const Json member = take(key);
    if (member.is_null()) {
      return otherwise;
    }
    return to_integer<Integer>(member, key);
  }

  double real(const char* key, double otherwise) {
    const Json member = take(key);
    require(member.is_null() || member.is_number(), key, "is not a number");
    return member.is_null() ? otherwise : member.get<double>();
  }

  bool boolean(const char* key, bool otherwise) {
    const Json member = take(key);
    require(member.is_null() || member.is_boolean(), key, "is not true or false");
    return member.is_null() ? otherwise : member.get<bool>();
  }

  std::string string(const char* key, const char* otherwise) {
    const Json member = take(key);
    require(member.is_null() || member.is_string(), key, "is not a string");
    return member.is_null() ? otherwise : member.get<std::string>();
  }

  std::vector<std::int32_t> integers(const char* key) {
    const Json member = take(key);
    require(member.is_null() || member.is_array(), key, "is not an array");
    std::vector<std::int32_t> integers;
    for (const Json& each : member) {
      integers.push_back(to_integer<std::int32_t>(each, key));
    }
    return integers;
  }

  std::vector<double> reals(const char* key) {
    const Json member = take(key);
    require(member.is_null() || member.is_array(), key, "is not an array");
    std::vector<double> reals;
    for (const Json& each : member) {
      require(each.is_number(), key, "is not an array of numbers");
      reals.push_back(each.get<double>());
    }
    return reals;
  }

  void finish() const {
    if (!object_.empty()) {
      fail("has an unknown member \"" + object_.begin().key() + '"');
    }
  }

 private:
  void check(int depth, Json::parse_event_t event, const Json& parsed) {
    const bool starts =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (starts && depth > (event == Json::parse_event_t::array_start ? 1 : 0)) {
      fail("is nested too deeply");
    }
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      require(std::find(keys_.begin(), keys_.end(), key) == keys_.end(), key, "is there twice");
      keys_.push_back(key);
    }
    require(event != Json::parse_event_t::value || !parsed.is_null(), "null", "is no value");
  }

  // Null if there is none.
  Json take(const char* key) {
    const auto it = object_.find(key);
    if (it == object_.end()) {
      return nullptr;
    }
    Json member = std::move(*it);
    object_.erase(it);
    return member;
  }

  template <typename Integer>
  Integer to_integer(const Json& member, const char* key) const {
    require(member.is_number_integer(), key, "is not an integer");
    constexpr auto kMax = std::numeric_limits<Integer>::max();
    if (member.is_number_unsigned()) {
      require(member.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMax), key, "is too large");
    } else {
      require(member.get<std::int64_t>() >= std::numeric_limits<Integer>::min(), key,
              "is too small");
    }
    return member.get<Integer>();
  }

  void require(bool holds, const std::string& key, const char* reason) const {
    if (!holds) {
      fail("is wrong: \"" + key + "\" " + reason);
    }
  }

  std::size_t line_;
  Json object_;
  std::vector<std::string> keys_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_JSON_RECORD_H_
