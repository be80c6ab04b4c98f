// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Traces of training steps of models as they are common, with 16-bit values. Bytes follow from the
// shapes, times from a roofline; backward reads what PyTorch's autograd saves.
#ifndef REPRISE_TESTS_PLANNER_MODEL_TRACES_H_
#define REPRISE_TESTS_PLANNER_MODEL_TRACES_H_

#include <cstdint>

#include "reprise/planner/trace.h"

namespace reprise::testing {

// Linear operators and activation functions, one after the other.
planner::Trace mlp(int layers, std::int64_t width = 4096, std::int64_t batch = 1024);

// Pre-norm blocks of attention (with dropout) and a GELU network, 16 heads, and a head for a
// vocabulary of 16 * width. fused: attention in one operator, without the matrix of scores.
planner::Trace transformer(int layers, std::int64_t width, std::int64_t sequence,
                           std::int64_t batch, bool fused);

// Blocks of RMS norm, fused attention and a SwiGLU network.
planner::Trace swiglu_stack(int layers = 32, std::int64_t width = 256, std::int64_t sequence = 1024,
                            std::int64_t batch = 4);

// Residual blocks of two convolutions, with additions and activation functions in place.
planner::Trace resnet(int blocks, std::int64_t channels = 64, std::int64_t side = 56,
                      std::int64_t batch = 32);

// Each layer reads the concatenation of what all layers before it have made.
planner::Trace densenet(int layers, std::int64_t growth = 32, std::int64_t side = 28,
                        std::int64_t batch = 32);

// Each level halves the side and doubles the channels; the way up reads what the way down has made.
planner::Trace unet(int levels, std::int64_t channels = 32, std::int64_t side = 256,
                    std::int64_t batch = 8);

// One layer with the cell written out in single operators.
planner::Trace lstm(int steps, std::int64_t width = 1024, std::int64_t batch = 128);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PLANNER_MODEL_TRACES_H_
