// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/store_argument.h"

#include <cstddef>
#include <sstream>

#include "reprise/planner/command/quantities.h"

namespace reprise::planner_internal {
namespace {

using planner::StoreOption;

double parse_fraction(const std::string& text) {
  const double fraction = parse_number(text);
  if (fraction > 1) {
    throw UsageError("'" + text + "' is not a share from 0 to 1");
  }
  return fraction;
}

void set(StoreOption& store, const std::string& key, const std::string& value) {
  if (key == "rate") {
    store.put_seconds_per_byte = store.get_seconds_per_byte = parse_seconds_per_byte(value);
  } else if (key == "put") {
    store.put_seconds_per_byte = parse_seconds_per_byte(value);
  } else if (key == "get") {
    store.get_seconds_per_byte = parse_seconds_per_byte(value);
  } else if (key == "latency") {
    store.latency_seconds = parse_seconds(value);
  } else if (key == "smallest") {
    store.smallest_bytes = parse_bytes(value);
  } else if (key == "capacity") {
    store.capacity_bytes = parse_bytes(value);
  } else if (key == "retains") {
    store.retained_fraction = parse_fraction(value);
  } else {
    throw UsageError("--store knows no '" + key +
                     "': it is one of overlapped, rate, put, get, latency, smallest, capacity, "
                     "retains");
  }
}

}  // namespace

StoreOption parse_store(const std::string& text) {
  std::istringstream in(text);
  StoreOption store;
  std::getline(in, store.name, ',');
  if (store.name.empty() || store.name.find('=') != std::string::npos) {
    throw UsageError("--store '" + text + "' begins with no name, as host,rate=25GB/s does");
  }
  for (std::string part; std::getline(in, part, ',');) {
    const std::size_t equals = part.find('=');
    if (part == "overlapped") {
      store.is_overlapped = true;
    } else {
      set(store, part.substr(0, equals),
          equals == std::string::npos ? "" : part.substr(equals + 1));
    }
  }
  if (store.put_seconds_per_byte == 0 && store.get_seconds_per_byte == 0) {
    throw UsageError("--store '" + text + "' has no rate, as host,rate=25GB/s has");
  }
  return store;
}

}  // namespace reprise::planner_internal
