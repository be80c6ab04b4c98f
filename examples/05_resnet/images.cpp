// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "images.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "options.h"

namespace resnet {
namespace {

constexpr unsigned char kBytes = 0x08;  // the type of IDX's elements

struct CloseFile {
  void operator()(gzFile file) const { gzclose(file); }
};

class IdxFile {
 public:
  explicit IdxFile(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) {
      throw UsageError("no images in '" + path.parent_path().string() +
                       "': install Debian's package dataset-fashion-mnist, or give --data");
    }
  }

  // Returns all elements, as uint8.
  torch::Tensor read() {
    std::array<unsigned char, 4> header{};
    read_bytes(header.data(), header.size());
    if (header[0] != 0 || header[1] != 0 || header[2] != kBytes) {
      throw UsageError("'" + path_.string() + "' is no IDX file of bytes");
    }
    std::vector<std::int64_t> sizes(header[3]);
    for (std::int64_t& size : sizes) {
      size = read_big_endian();
    }
    torch::Tensor elements = torch::empty(sizes, torch::kUInt8);
    read_bytes(elements.data_ptr(), elements.nbytes());
    return elements;
  }

 private:
  void read_bytes(void* bytes, std::size_t count) {
    if (gzread(file_.get(), bytes, static_cast<unsigned>(count)) != static_cast<int>(count)) {
      throw UsageError("'" + path_.string() + "' ends early");
    }
  }

  std::int64_t read_big_endian() {
    std::array<unsigned char, 4> bytes{};
    read_bytes(bytes.data(), bytes.size());
    std::int64_t value = 0;
    for (const unsigned char byte : bytes) {
      value = value << 8 | byte;
    }
    return value;
  }

  const std::filesystem::path path_;
  std::unique_ptr<gzFile_s, CloseFile> file_;
};

}  // namespace

ImageSet load_images(const std::filesystem::path& folder, const std::string& part,
                     std::int64_t count) {
  const torch::Tensor images = IdxFile(folder / (part + "-images-idx3-ubyte.gz")).read();
  const torch::Tensor labels = IdxFile(folder / (part + "-labels-idx1-ubyte.gz")).read();
  if (images.dim() != 3 || labels.dim() != 1 || images.size(0) != labels.size(0)) {
    throw UsageError("'" + folder.string() + "' has no label for each image of " + part);
  }
  const std::int64_t used = std::min(count, images.size(0));
  return {.images = images.narrow(0, 0, used).unsqueeze(1).clone(),
          .labels = labels.narrow(0, 0, used).to(torch::kInt64)};
}

}  // namespace resnet
