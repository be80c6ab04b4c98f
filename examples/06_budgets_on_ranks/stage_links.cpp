// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "stage_links.h"

#include <utility>

namespace budgets_on_ranks {

StageLinks::StageLinks(c10::intrusive_ptr<c10d::ProcessGroup> group,
                       std::vector<std::int64_t> sizes)
    : group_(std::move(group)), sizes_(std::move(sizes)) {}

void StageLinks::Sent::wait() {
  if (work) {
    work->wait();
    work.reset();
  }
  tensors.clear();
}

torch::Tensor StageLinks::receive(int from) {
  std::vector<torch::Tensor> received = {torch::empty(sizes_)};
  group_->recv(received, from, /*tag=*/0)->wait();
  return received.front();
}

void StageLinks::send(Sent& last, const torch::Tensor& tensor, int to) {
  last.wait();
  last.tensors = {tensor};
  last.work = group_->send(last.tensors, to, /*tag=*/0);
}

torch::Tensor StageLinks::receive_input() { return receive(group_->getRank() - 1); }

torch::Tensor StageLinks::receive_gradient() { return receive(group_->getRank() + 1); }

void StageLinks::send_output(const torch::Tensor& output) {
  send(output_, output, group_->getRank() + 1);
}

void StageLinks::send_gradient(const torch::Tensor& gradient) {
  send(gradient_, gradient, group_->getRank() - 1);
}

void StageLinks::finish() {
  output_.wait();
  gradient_.wait();
}

}  // namespace budgets_on_ranks
