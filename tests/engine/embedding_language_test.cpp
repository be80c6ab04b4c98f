// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/embedding/embedding_language.h"

#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/function/function_replay.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::engine_internal::embedding_language_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::InRegion;
using testing::leaf;
using ::testing::ThrowsMessage;

// The lock of a language. A thread that does not get it in time finds a deadlock.
class Lock {
 public:
  static void take() {
    if (!mutex().try_lock_for(std::chrono::seconds(10))) {
      throw std::runtime_error("the language's lock is held by a thread that waits");
    }
    is_held() = true;
  }
  static void release() {
    is_held() = false;
    mutex().unlock();
  }
  static bool& is_held() {
    static thread_local bool held = false;
    return held;
  }

  static void* release_for_a_while() noexcept {
    if (!is_held()) {
      return nullptr;
    }
    release();
    return &mutex();
  }
  static void take_back(void*) noexcept { take(); }

 private:
  static std::timed_mutex& mutex() {
    static std::timed_mutex mutex;
    return mutex;
  }
};

class Language : public testing::ConformanceTest {
 protected:
  void set(const EmbeddingLanguage& language) {
    static EmbeddingLanguage current;
    current = language;
    set_embedding_language(&current);
  }
  void TearDown() override {
    set_embedding_language(nullptr);
    ConformanceTest::TearDown();
  }
};

using EmbeddingLanguageTest = Language;

// Two threads of one session. The second one asks, with the lock, while the first one replays.
TEST_F(EmbeddingLanguageTest, ThreadThatWaitsForAReplayDoesNotHoldTheLock) {
  set({.release_lock = &Lock::release_for_a_while, .take_lock = &Lock::take_back});
  std::promise<void> replaying;
  std::promise<void> asking;
  std::future<void> asks = asking.get_future();
  const at::Tensor x = leaf({3});
  int replays = 0;
  const std::vector<at::Tensor> y = checkpoint(
      [&](const at::Tensor& t) {
        if (is_recomputing()) {
          if (replays++ == 0) {
            replaying.set_value();
            asks.wait();
          }
          Lock::take();
          Lock::release();
        }
        return std::vector<at::Tensor>{t.sin().exp(), t.cos().exp()};
      },
      x);
  // By nodes of their own, as a node lets in one thread at a time.
  const auto gradient = [&y, &x](int output) {
    return torch::autograd::grad({y[output].sum()}, {x}, {}, /*retain_graph=*/true)[0];
  };
  GraphExecGroup group;
  std::future<at::Tensor> first = std::async(std::launch::async, [&] {
    const GraphExecGroupGuard guard(group);
    return gradient(0);
  });
  replaying.get_future().wait();
  Lock::take();
  asking.set_value();
  const GraphExecGroupGuard guard(group);
  const at::Tensor second = gradient(1);
  EXPECT_TRUE(Lock::is_held());
  Lock::release();
  EXPECT_TRUE(bitwise_equal(first.get(), gradients(x.sin().exp(), {x})[0]));
  EXPECT_TRUE(bitwise_equal(second, gradients(x.cos().exp(), {x})[0]));
}

struct LanguageStop final : std::exception {
  const char* what() const noexcept override { return "the language's early stop"; }
};

TEST_F(EmbeddingLanguageTest, EarlyStopIsTheLanguages) {
  set({.throw_early_stop = [] { throw LanguageStop(); }});
  int stops = 0;
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      [&stops](const at::Tensor& t) {
        EXPECT_FALSE(replay_has_stopped());
        try {
          return t.sin().exp().clone();
        } catch (const LanguageStop&) {
          ++stops;
          EXPECT_TRUE(replay_has_stopped());
          throw std::runtime_error("translated");
        }
      },
      x);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp(), {x})[0]));
  EXPECT_EQ(stops, 1);
  EXPECT_FALSE(replay_has_stopped());
}

TEST_F(EmbeddingLanguageTest, InnermostReplayIsTheOneThatHasStopped) {
  set({.throw_early_stop = [] { throw LanguageStop(); }});
  const auto inner = [](const at::Tensor& t) {
    EXPECT_FALSE(replay_has_stopped());
    return t.sin().exp().clone();
  };
  testing::expect_as_plain([&](auto run) -> testing::Tensors {
    const at::Tensor x = leaf({3});
    const at::Tensor y =
        run([&](const at::Tensor& t) { return run(inner, t.cos()).sin().clone(); }, x);
    return gradients(y, {x});
  });
}

struct LanguageError final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_F(EmbeddingLanguageTest, ErrorsThatABackwardReceivesAreTheLanguages) {
  set({.throw_error = [](const std::exception& error) {
    throw LanguageError("the language's: " + std::string(error.what()));
  }});
  const at::Tensor x = leaf({3});
  const at::Tensor y =
      checkpoint([](const at::Tensor& t) { return is_recomputing() ? t.cos() : t.sin().exp(); }, x);
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<LanguageError>(HasSubstr("A different number of tensors was saved")));
  set({.throw_error = [](const std::exception&) {}});
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<DeterminismError>(HasSubstr("A different number of tensors")));
}

TEST_F(EmbeddingLanguageTest, DebugModeShowsTheLanguagesStack) {
  set({.describe_stack = [] { return std::string("line 7 of the language's code"); }});
  const at::Tensor x = leaf({3});
  const auto code = [](const at::Tensor& t) { return is_recomputing() ? t.cos() : t.sin().exp(); };
  const at::Tensor y = checkpoint({.debug = true}, code, x);
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<DeterminismError>(
                  HasSubstr("Stack of #0 aten::sin in forward:\nline 7 of the language's code")));
}

}  // namespace
}  // namespace reprise::engine_internal::embedding_language_test
