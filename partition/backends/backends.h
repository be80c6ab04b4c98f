// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// c10d's backends that need additional headers. partition/gloo/ and partition/nccl/ implement them,
// no_gloo/ and no_nccl/ report that there are none.
#ifndef REPRISE_PARTITION_BACKENDS_BACKENDS_H_
#define REPRISE_PARTITION_BACKENDS_BACKENDS_H_

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace reprise::partition_internal {

struct Meeting {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int size;
  std::string address;  // of rank 0
  std::chrono::milliseconds timeout;
};

bool has_gloo_backend();
// Throws c10::NotImplementedError if there is none.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Meeting& meeting);

// Returns false without a GPU.
bool has_nccl_backend();
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const Meeting& meeting);

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_BACKENDS_BACKENDS_H_
