// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The cost of comparing memory that no operator counts writes to: a fingerprint of all bytes, when
// an operator of a region reads a tensor from outside that requires no gradient, and when a replay
// does. Prints JSON: for each size in MiB the processor time of a fingerprint over that of
// aten::mul on the same tensor (quartiles of interleaved rounds), and the fingerprint's GB/s.
#include <ATen/Parallel.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/chain.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::bench {
namespace {

constexpr int kRounds = 201;

std::array<double, 3> quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 4], values[values.size() / 2], values[values.size() * 3 / 4]};
}

nlohmann::ordered_json measure(std::int64_t mib) {
  const at::Tensor tensor = at::rand({mib << 18});
  at::Tensor product = at::mul(tensor, tensor);
  std::uint64_t sum = 0;
  std::vector<double> ratios;
  std::vector<double> speeds;
  for (int round = 0; round < kRounds; ++round) {
    const double fingerprint =
        microseconds([&] { sum += engine_internal::sample_memory(tensor, /*of_all_bytes=*/true); });
    const double mul = microseconds([&] { at::mul_out(product, tensor, tensor); });
    ratios.push_back(fingerprint / mul);
    speeds.push_back(static_cast<double>(tensor.nbytes()) / fingerprint / 1e3);
  }
  return {{"MiB", mib},
          {"of_mul", quartiles(std::move(ratios))},
          {"GB_per_s", quartiles(std::move(speeds))[1]},
          {"sum", sum % 2}};  // is used
}

}  // namespace
}  // namespace reprise::bench

int main() {
  at::set_num_threads(1);
  nlohmann::ordered_json result;
  for (const std::int64_t mib : {1, 4, 64, 256}) {
    result.push_back(reprise::bench::measure(mib));
  }
  std::cout << result.dump(1) << '\n';
  return 0;
}
