// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/outside/assigned_data.h"

#include <algorithm>

namespace reprise::engine_internal {

void AssignedData::note(const at::Tensor& parameter) {
  const auto is_it = [&](const Parameter& each) {
    return each.tensor._unsafe_get_target() == parameter.unsafeGetTensorImpl();
  };
  const auto known = std::find_if(parameters_.begin(), parameters_.end(), is_it);
  if (known == parameters_.end()) {
    parameters_.push_back({WeakTensor(parameter.getIntrusivePtr()), storage_id_of(parameter)});
  } else {
    known->memory = storage_id_of(parameter);
  }
}

void AssignedData::complete() {
  std::erase_if(parameters_, [](const Parameter& each) {
    auto tensor = each.tensor.lock();
    return !tensor || storage_id_of(at::Tensor(std::move(tensor))) != each.memory;
  });
}

AssignedData::Guard::Guard(const AssignedData& assigned) {
  for (const Parameter& each : assigned.parameters_) {
    if (auto impl = each.tensor.lock()) {
      at::Tensor parameter(std::move(impl));
      at::Tensor data = parameter.tensor_data();
      data_.emplace_back(std::move(parameter), std::move(data));
    }
  }
}

AssignedData::Guard::~Guard() {
  for (const auto& [parameter, data] : data_) {
    if (!parameter.is_alias_of(data)) {
      parameter.set_data(data);
    }
  }
}

}  // namespace reprise::engine_internal
