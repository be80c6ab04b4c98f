// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/disk_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "reprise/hooks/background/background.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/background_test.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"

namespace reprise::disk_store_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::live_cpu_bytes;
using ::testing::ThrowsMessage;

// A directory of its own, which is removed in the end.
class DiskStoreTest : public testing::BackgroundTest {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "reprise-disk-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory = name;
  }
  void TearDown() override {
    BackgroundTest::TearDown();
    std::filesystem::remove_all(directory);
  }

  // Every tensor goes.
  DiskOptions all() const { return {.directory = directory, .min_bytes = 0, .keep_last = 0}; }

  std::string directory;
};

std::int64_t files_in(const std::string& directory) {
  const std::filesystem::directory_iterator files(directory);
  return std::distance(begin(files), end(files));
}

TEST_F(DiskStoreTest, MemoryIsLetGoOf) {
  const auto store = stores::disk(all());
  const std::int64_t before = testing::settled_cpu_bytes();
  const at::Tensor expected = at::arange(3000.0);
  at::Tensor x = expected.clone();
  const auto stored = store->put(x);
  x.reset();
  store->flush();
  EXPECT_EQ(live_cpu_bytes() - before, 3000 * 4);  // `expected`
  EXPECT_EQ(stored->device_bytes(), 0U);
  EXPECT_EQ(store->counters().bytes_out, 12000);
  EXPECT_EQ(store->counters().disk_bytes, 12288U);
  EXPECT_TRUE(bitwise_equal(stored->get(), expected));
  EXPECT_EQ(store->counters().bytes_in, 12000);
  EXPECT_EQ(store->counters().waits, 1);
  EXPECT_GT(store->counters().wait_time.count(), 0);
}

TEST_F(DiskStoreTest, LargeTensorsOfAnyLength) {
  for (const bool direct : {true, false}) {
    DiskOptions options = all();
    options.direct = direct;
    const auto store = stores::disk(options);
    for (const std::int64_t length : {1L, 4095L, 4096L, 4097L, (4L << 20) + 1, (9L << 20) - 5}) {
      const at::Tensor expected = at::randint(0, 256, {length}, at::kByte);
      const auto stored = store->put(expected.clone());
      store->flush();
      EXPECT_TRUE(bitwise_equal(stored->get(), expected)) << length;
    }
  }
}

// See Note [Disk files of forked processes].
TEST_F(DiskStoreTest, ForkedProcessesReadWhatTheyInheritAndDoNotDisturbEachOther) {
  const auto store = stores::disk(all());
  const auto put = [&](double value) { return store->put(at::full({1 << 14}, value)); };
  const auto holds = [](StoredTensor& stored, double value) {
    return bitwise_equal(stored.get(), at::full({1 << 14}, value));
  };
  auto released = put(0);
  auto inherited = put(1);
  released.reset();  // its place is free
  auto last = put(2);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    const auto first = put(3);
    const auto second = put(4);
    store->flush();
    const bool is_right = holds(*first, 3) && holds(*second, 4) && holds(*inherited, 1);
    last.reset();
    store->flush();
    store->release_unused();
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const auto more = put(5);
  store->flush();
  EXPECT_TRUE(holds(*inherited, 1));
  EXPECT_TRUE(holds(*last, 2));
  EXPECT_TRUE(holds(*more, 5));
}

TEST_F(DiskStoreTest, StorageIsKeptOnceHoweverManyViews) {
  const auto store = stores::disk(all());
  at::Tensor x = at::arange(1200.0).view({30, 40});
  const auto whole = store->put(x);
  const auto transposed = store->put(x.t());
  const auto small = store->put(x.narrow(0, 4, 2));  // its elements, by themselves
  x.reset();
  store->flush();
  EXPECT_EQ(store->counters().bytes_out, 4800 + 320);
  const at::Tensor a = whole->get();
  EXPECT_TRUE(a.is_alias_of(transposed->get()));
  EXPECT_EQ(store->counters().bytes_in, 4800);
  EXPECT_TRUE(bitwise_equal(small->get(), at::arange(160.0, 240.0).view({2, 40})));
}

TEST_F(DiskStoreTest, ReadsNoLivingTensor) {
  const auto store = stores::disk(all());
  const at::Tensor x = at::ones({2000});
  const auto stored = store->put(x);
  store->flush();
  EXPECT_TRUE(stored->get().is_alias_of(x));
  EXPECT_EQ(store->counters().bytes_in, 0);
  EXPECT_EQ(store->counters().bytes_reused, 8000);
}

TEST_F(DiskStoreTest, ThrowsForChangeInPlace) {
  const auto store = stores::disk(all());
  const at::Tensor x = at::ones({2000});
  const auto stored = store->put(x);
  store->flush();
  const std::string message = c10::str(
      "modified by an inplace operation: 8000 bytes on cpu were put at version ", x._version());
  x.fill_(2);
  EXPECT_THAT([&] { stored->get(); }, ThrowsMessage<c10::Error>(HasSubstr(message)));
}

TEST_F(DiskStoreTest, SmallOnesAndWhatIsBeyondTheCapAreHandedOn) {
  const auto store = stores::disk(
      {.directory = directory, .min_bytes = 100, .max_disk_bytes = 8192, .keep_last = 0});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (const std::int64_t length : {99, 4000, 4097, 4096, 100}) {
    stored.push_back(store->put(at::ones({length}, at::kByte)));
  }
  store->flush();
  EXPECT_EQ(store->counters().bytes_out, 4000 + 4096);
  EXPECT_EQ(store->counters().bytes_forwarded, 99 + 4097 + 100);
  for (const auto& each : stored) {
    EXPECT_TRUE(each->get().eq(1).all().item<bool>());
  }
}

TEST_F(DiskStoreTest, KeepsTheLastTensorsOnTheDevice) {
  const auto store = stores::disk({.directory = directory, .min_bytes = 0, .keep_last = 2});
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 5; ++i) {
    stored.push_back(store->put(at::full({1000}, i)));
  }
  store->flush();
  EXPECT_EQ(store->counters().bytes_out, 3 * 8000);
  EXPECT_EQ(store->counters().resident_bytes, 2 * 8000U);
  EXPECT_EQ(store->counters().in_flight_bytes, 0U);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(stored[static_cast<std::size_t>(i)]->get().eq(i).all().item<bool>());
  }
}

// Until it is opened, the threads of the background wait.
class Gate {
 public:
  Gate() {
    for (int thread = 0; thread < 2; ++thread) {
      hooks_internal::run_in_background([opened = opened_] { opened.wait(); });
    }
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
};

TEST_F(DiskStoreTest, PutWaitsForTheDiskBeyondWhatMayBeInFlight) {
  DiskOptions options = all();
  options.max_in_flight_bytes = 10000;
  const auto store = stores::disk(options);
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (int i = 0; i < 6; ++i) {
    stored.push_back(store->put(at::full({1000}, i)));
    EXPECT_LE(store->counters().in_flight_bytes, 10000U);
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(stored[static_cast<std::size_t>(i)]->get().eq(i).all().item<bool>());
  }
}

TEST_F(DiskStoreTest, ManyThreadsGetOneTensor) {
  const auto store = stores::disk(all());
  const auto stored = store->put(at::arange(100000));
  store->flush();
  std::vector<std::future<at::Tensor>> found;
  for (int i = 0; i < 8; ++i) {
    found.push_back(std::async(std::launch::async, [&] {
      stored->prefetch();
      return stored->get();
    }));
  }
  for (auto& each : found) {
    EXPECT_TRUE(bitwise_equal(each.get(), at::arange(100000)));
  }
}

TEST_F(DiskStoreTest, TwoHundredStepsDoNotGrow) {
  const at::Tensor x = at::randn({50, 70}).requires_grad_();
  const at::Tensor expected = torch::autograd::grad({x.sin().exp().tanh().sum()}, {x})[0];
  const auto store = stores::disk(all());
  const std::int64_t before = testing::settled_cpu_bytes();
  for (int step = 0; step < 200; ++step) {
    at::Tensor y;
    {
      const StoreGuard guard(store);
      y = x.sin().exp().tanh().sum();
    }
    store->flush();
    EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y}, {x})[0], expected));
    EXPECT_LE(store->counters().disk_bytes, 3 * 16384U);
  }
  EXPECT_TRUE(testing::cpu_bytes_come_to(before));
}

// Of files that this process has open.
bool has_open_file_in(const std::string& directory) {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::any_of(begin(files), end(files), [&](const std::filesystem::directory_entry& file) {
    std::error_code gone;  // what the iteration itself has open
    return std::filesystem::read_symlink(file.path(), gone).string().starts_with(directory + "/");
  });
}

TEST_F(DiskStoreTest, UnlessNamedTheDirectoryIsTheSystemsForTemporaryFiles) {
  const char* const found = std::getenv("TMPDIR");
  const std::string before = found == nullptr ? "" : found;
  setenv("TMPDIR", directory.c_str(), 1);
  {
    const auto store = stores::disk({.min_bytes = 0, .keep_last = 0});
    EXPECT_TRUE(has_open_file_in(directory));
    EXPECT_TRUE(bitwise_equal(store->put(at::ones({1000}))->get(), at::ones({1000})));
  }
  setenv("TMPDIR", (directory + "/none").c_str(), 1);
  EXPECT_THAT([] { static_cast<void>(stores::disk()); },
              ThrowsMessage<c10::Error>(HasSubstr("TMPDIR, cannot be used")));
  if (found == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", before.c_str(), 1);
  }
}

TEST_F(DiskStoreTest, ThrowsForAMissingDirectory) {
  EXPECT_THAT([&] { static_cast<void>(stores::disk({.directory = directory + "/none"})); },
              ThrowsMessage<c10::Error>(HasSubstr("cannot make a file in '" + directory +
                                                  "/none': No such file or directory")));
}

TEST_F(DiskStoreTest, NothingIsLeftOfAProcessThatIsKilled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto die = [this] {
    const auto store = stores::disk(all());
    const auto stored = store->put(at::ones({1 << 20}));
    store->flush();
    const auto in_flight = store->put(at::ones({1 << 20}));
    std::raise(SIGKILL);
  };
  EXPECT_EXIT(die(), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(files_in(directory), 0);
}

// A limit on the size of files stands in for a full disk, wherever it may be set.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &found_);
    rlimit limit = found_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &found_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit found_{};
};

void expect_full_disk_loses_nothing(const std::string& directory, const std::string& reason) {
  const DiskOptions options{.directory = directory, .min_bytes = 0, .keep_last = 0};
  std::vector<std::unique_ptr<StoredTensor>> stored;
  const auto store = stores::disk(options);
  const at::Tensor x = at::full({256 << 10}, 7, at::kByte);
  stored.push_back(store->put(x.clone()));
  stored.push_back(store->put(x.clone()));
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT([&] { stored.push_back(store->put(at::ones({1 << 20}, at::kByte))); },
                ThrowsMessage<c10::Error>(HasSubstr("[stores.disk] no room for 1048576 bytes more, "
                                                    "with 524288 in use in '" +
                                                    directory + "': " + reason)));
  }
  stored.push_back(store->put(x.clone()));  // for this one there is
  store->flush();
  for (const auto& each : stored) {
    EXPECT_TRUE(bitwise_equal(each->get(), x));
  }
  DiskOptions handing_on = options;
  handing_on.when_full = DiskFull::kForward;
  const auto other = stores::disk(handing_on);
  const auto kept = other->put(at::ones({2 << 20}, at::kByte));
  EXPECT_EQ(other->counters().bytes_forwarded, 2 << 20);
  EXPECT_EQ(kept->device_bytes(), 2U << 20);
  EXPECT_TRUE(kept->get().eq(1).all().item<bool>());
}

TEST_F(DiskStoreTest, FullDiskLosesNothing) {
  const FileSizeLimit limit(1 << 20);
  expect_full_disk_loses_nothing(directory, "File too large");
}

TEST_F(DiskStoreTest, AfterAFailedWriteTheTensorIsInMemory) {
  const auto store = stores::disk(all());
  Gate gate;
  const auto stored = store->put(at::ones({2000}));
  {
    const FileSizeLimit limit(4096);
    gate.open();
    store->flush();
  }
  EXPECT_EQ(stored->device_bytes(), 8000U);
  EXPECT_TRUE(bitwise_equal(stored->get(), at::ones({2000})));
  EXPECT_THAT([&] { store->put(at::ones({2000})); },
              ThrowsMessage<c10::Error>(
                  HasSubstr("writing 8000 bytes failed in '" + directory + "': File too large")));
  const auto next = store->put(at::ones({2000}));
  store->flush();
  EXPECT_EQ(next->device_bytes(), 0U);
  EXPECT_TRUE(bitwise_equal(next->get(), at::ones({2000})));
}

// The file that this process has open in the directory, cut to nothing.
void empty_file_in(const std::string& directory) {
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(file.path(), error).string();
    if (target.starts_with(directory)) {
      ASSERT_EQ(truncate(file.path().c_str(), 0), 0);
    }
  }
}

TEST_F(DiskStoreTest, ThrowsForUnreadableFiles) {
  const auto store = stores::disk(all());
  const auto stored = store->put(at::ones({2000}));
  store->flush();
  empty_file_in(directory);
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT([&] { stored->get(); },
                ThrowsMessage<c10::Error>(HasSubstr("reading 8000 bytes failed in '" + directory)));
  }
}

TEST_F(DiskStoreTest, FullFileSystemLosesNothing) {
  if (mount("reprise", directory.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "needs the right to mount a small file system";
  }
  expect_full_disk_loses_nothing(directory, "No space left on device");
  umount2(directory.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace reprise::disk_store_test
