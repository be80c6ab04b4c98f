// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_configuration.h"

#include <memory>
#include <string>
#include <utility>

#include "reprise/engine/activation_checkpointing_config.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/python/bindings/python_guard.h"

namespace reprise::python {

void add_configuration(py::module_& module) {
  using Config = ActivationCheckpointingConfig;
  using StorePtr = std::shared_ptr<ActivationStore>;
  module.def("configure_checkpointing", [](const std::string& json, StorePtr partitioned) {
    configure_checkpointing(Config::from_json(json), std::move(partitioned));
  });
  module.def("configuration_guard", [](const std::string& json, StorePtr partitioned) {
    return guard_of<ConfigurationGuard>(Config::from_json(json), std::move(partitioned));
  });
  module.def("is_configured", &is_configured);
  module.def("reset_configuration", &reset_configuration);
  module.def("see_memory_usage",
             [](const std::string& message, bool force) { see_memory_usage(message, force); });
}

}  // namespace reprise::python
