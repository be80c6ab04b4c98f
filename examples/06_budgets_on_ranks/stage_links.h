// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: stage_links.h
//
// Transfers between a stage of a pipeline and its neighbours: stage n is rank n of a group.
#ifndef BUDGETS_ON_RANKS_STAGE_LINKS_H_
#define BUDGETS_ON_RANKS_STAGE_LINKS_H_

#include <torch/torch.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace budgets_on_ranks {

// A transfer to a neighbour ends before the next one to it begins, so that a stage keeps at most
// one sent tensor per neighbour. For Gloo: with NCCL, where transfers between two ranks wait for
// each other in both directions, the order of 1F1B would not end.
class StageLinks {
 public:
  // sizes: of what passes between stages, float.
  StageLinks(c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<std::int64_t> sizes);

  // From the stage before, and from the stage after.
  torch::Tensor receive_input();
  torch::Tensor receive_gradient();
  // To the stage after, and to the stage before.
  void send_output(const torch::Tensor& output);
  void send_gradient(const torch::Tensor& gradient);
  // Waits until the neighbours have received everything.
  void finish();

 private:
  // A tensor under way.
  struct Sent {
    std::vector<torch::Tensor> tensors;
    c10::intrusive_ptr<c10d::Work> work;

    void wait();
  };
  torch::Tensor receive(int from);
  void send(Sent& last, const torch::Tensor& tensor, int to);

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<std::int64_t> sizes_;
  Sent output_;
  Sent gradient_;
};

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_STAGE_LINKS_H_
