// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/disk_store.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/background/disk_file.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/option_checks.h"
#include "reprise/hooks/stored/put_storage.h"

namespace reprise {

using hooks_internal::BackgroundOffloader;
using hooks_internal::DiskFile;
using hooks_internal::Extent;
using hooks_internal::Place;

namespace {

std::string directory_of(const DiskOptions& options) {
  hooks_internal::check_not_negative("stores.disk", {{"max_disk_bytes", options.max_disk_bytes}});
  if (!options.directory.empty()) {
    return options.directory;
  }
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::temp_directory_path(error);
  TORCH_CHECK(!error,
              "[stores.disk] the system's directory for temporary files, TMPDIR, cannot be used: ",
              error.message(), ". Set it, or name another one in DiskOptions::directory");
  return directory.string();
}

class DiskPlace final : public Place {
 public:
  DiskPlace(std::shared_ptr<DiskFile> file, const Extent& extent)
      : file_(std::move(file)), extent_(extent) {}
  ~DiskPlace() override { file_->give_back(extent_); }
  DiskPlace(const DiskPlace&) = delete;
  DiskPlace& operator=(const DiskPlace&) = delete;

  Outcome write(hooks_internal::ByteSource& source, std::int64_t size) override {
    const auto copy = [&source](std::int64_t offset, std::int64_t length, std::byte* to) {
      return source.copy(offset, length, to);
    };
    return file_->write(extent_, size, copy) ? Outcome::kWritten : Outcome::kAbandoned;
  }
  void read(std::byte* bytes, std::int64_t size) override { file_->read(extent_, bytes, size); }

 private:
  const std::shared_ptr<DiskFile> file_;
  const Extent extent_;
};

std::shared_ptr<BackgroundOffloader> make_memory(const DiskOptions& options,
                                                 const std::shared_ptr<DiskFile>& file) {
  const auto find_place = [file](const hooks_internal::PlaceRequest& request) {
    const auto extent = file->reserve(request.bytes);
    return extent ? std::make_unique<DiskPlace>(file, *extent) : nullptr;
  };
  return std::make_shared<BackgroundOffloader>(
      hooks_internal::BackgroundOptions{.name = "stores.disk",
                                        .min_bytes = options.min_bytes,
                                        .max_in_flight_bytes = options.max_in_flight_bytes,
                                        .keep_last = options.keep_last,
                                        .throws_failures = options.when_full == DiskFull::kThrow,
                                        .find_place = find_place});
}

}  // namespace

DiskStore::DiskStore(const DiskOptions& options)
    : file_(std::make_shared<DiskFile>(directory_of(options), options.max_disk_bytes,
                                       options.direct)),
      memory_(make_memory(options, file_)) {}

DiskStore::DiskStore(std::shared_ptr<DiskFile> file, std::shared_ptr<BackgroundOffloader> memory,
                     std::shared_ptr<ActivationStore> next)
    : file_(std::move(file)), memory_(std::move(memory)), next_(std::move(next)) {}

DiskStore::~DiskStore() = default;

std::unique_ptr<StoredTensor> DiskStore::put(const at::Tensor& tensor) {
  return hooks_internal::put_storage(*this, *memory_, next_, tensor);
}

std::shared_ptr<ActivationStore> DiskStore::followed_by(std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<ActivationStore>(
      new DiskStore(file_, memory_, hooks_internal::appended(next_, std::move(next))));
}

DiskCounters DiskStore::counters() const {
  DiskCounters counters{memory_->counters()};
  counters.disk_bytes = file_->used_bytes();
  return counters;
}

void DiskStore::flush() { memory_->flush(); }

void DiskStore::release_unused() { file_->release_unused(); }

namespace stores {

std::shared_ptr<DiskStore> disk(const DiskOptions& options) {
  return std::make_shared<DiskStore>(options);
}

}  // namespace stores

}  // namespace reprise
