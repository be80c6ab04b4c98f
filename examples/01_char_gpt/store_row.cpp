// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "store_row.h"

#include <cstddef>
#include <sstream>
#include <string>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/stores.h"

namespace char_gpt {
namespace {

namespace stores = reprise::stores;

// The demo's tensors are small: what is on its way would be most of them.
constexpr std::int64_t kInFlightBytes = std::int64_t{8} << 20;

std::shared_ptr<reprise::ActivationStore> store_named(const std::string& name,
                                                      const Options& options) {
  if (name == "packed") {
    return stores::packed();
  }
  if (name == "host") {
    return stores::host({.max_in_flight_bytes = kInFlightBytes});
  }
  if (name == "disk") {
    return stores::disk({.directory = options.out.string(), .max_in_flight_bytes = kInFlightBytes});
  }
  if (name == "compressed") {
    return stores::compressed({.max_in_flight_bytes = kInFlightBytes});
  }
  if (name == "quantized") {
    return stores::quantized();
  }
  throw UsageError("--store " + options.store + ": there is no store '" + name +
                   "'; there are packed, host, disk, compressed and quantized");
}

}  // namespace

std::shared_ptr<reprise::ActivationStore> make_store(const Options& options) {
  const std::string fitting = options.device == "cpu" ? "disk" : "host";
  std::istringstream row(options.store.empty() ? fitting : options.store);
  std::shared_ptr<reprise::ActivationStore> all;
  for (std::string name; std::getline(row, name, '|');) {
    auto next = store_named(name, options);
    all = all == nullptr ? next : all | next;
  }
  return all;
}

}  // namespace char_gpt
