// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// LibTorch contains Gloo, but not Gloo's headers. Headers of another version work, as only pointers
// to Gloo's types are used here.
#include <cstdlib>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "reprise/partition/backends/backends.h"

namespace reprise::partition_internal {
namespace {

using c10d::ProcessGroupGloo;

// GLOO_SOCKET_IFNAME names network interfaces, as in Python.
void choose_devices(const std::string& address, ProcessGroupGloo::Options& options) {
  const char* const names = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  if (names != nullptr && *names != '\0') {
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) {
      options.devices.push_back(ProcessGroupGloo::createDeviceForInterface(name));
    }
  } else if (address == "127.0.0.1" || address == "localhost") {
    // All ranks are on this machine, whose name may resolve to an interface that is down.
    options.devices.push_back(ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else {
    options.devices.push_back(ProcessGroupGloo::createDefaultDevice());
  }
  options.threads = static_cast<int>(options.devices.size()) * 2;
}

}  // namespace

bool has_gloo_backend() { return true; }

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Meeting& meeting) {
  const auto options = ProcessGroupGloo::Options::create(meeting.timeout);
  choose_devices(meeting.address, *options);
  return c10::make_intrusive<ProcessGroupGloo>(meeting.store, meeting.rank, meeting.size, options);
}

}  // namespace reprise::partition_internal
