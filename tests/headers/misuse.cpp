// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls that must not compile, each with one error that says why.
#include <memory>

#include "reprise/engine/checkpoint.h"

namespace reprise::misuse_test {

void call_with_other_arguments(const at::Tensor& x) {
  checkpoint([](const at::Tensor& a, const at::Tensor& b) { return a.add(b); }, x);
}

void pass_callable_that_cannot_be_copied(const at::Tensor& x) {
  const auto scale = [factor = std::make_unique<double>(2.0)](const at::Tensor& a) {
    return a.mul(*factor);
  };
  checkpoint(scale, x);
}

void pass_argument_that_cannot_be_copied(const at::Tensor& x) {
  checkpoint([](const at::Tensor& a, const std::unique_ptr<double>& b) { return a.mul(*b); }, x,
             std::make_unique<double>(2.0));
}

void pass_braces(const at::Tensor& x) {
  checkpoint([](const at::TensorList& all) { return all[0].add(all[1]); }, {x, x});
  checkpoint({.name = "sum"}, [](const at::TensorList& all) { return all[0].add(all[1]); }, {x, x});
}

void pass_options_last(const at::Tensor& x) {
  checkpoint([](const at::Tensor& a) { return a.sin(); }, x, {});
}

}  // namespace reprise::misuse_test
