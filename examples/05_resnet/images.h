// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: images.h
//
// Images and labels in MNIST's format (IDX), compressed by gzip or not.
#ifndef RESNET_IMAGES_H_
#define RESNET_IMAGES_H_

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace resnet {

constexpr std::int64_t kClasses = 10;

struct ImageSet {
  torch::Tensor images;  // (n, 1, height, width) uint8
  torch::Tensor labels;  // (n) int64

  [[nodiscard]] std::int64_t size() const { return labels.size(0); }
};

// Reads the first `count` images of "train" or "t10k", or all if there are fewer. Throws UsageError
// if there is no such data in the folder.
ImageSet load_images(const std::filesystem::path& folder, const std::string& part,
                     std::int64_t count);

}  // namespace resnet

#endif  // RESNET_IMAGES_H_
