// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The private classes behind stores::compressed().
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "reprise/hooks/compression/chunk_codec.h"
#include "reprise/hooks/compression/codec_choice.h"
#include "reprise/hooks/compression/room_account.h"
#include "reprise/hooks/compression/time_budget.h"

namespace reprise::hooks_internal {
namespace {

using Bytes = std::vector<std::byte>;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Bytes bytes_of(const at::Tensor& tensor) {
  const auto* const begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {begin, begin + tensor.nbytes()};
}

Bytes noise(std::int64_t size) { return bytes_of(at::randint(0, 256, {size}, at::kByte)); }

TEST(ChunkCodecTest, ShufflesAndBack) {
  Bytes bytes(1000);
  std::generate(bytes.begin(), bytes.end(), [n = 0]() mutable { return std::byte(n++ % 251); });
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 999U, 1000U}) {
    for (const std::size_t element : {1U, 2U, 4U, 8U}) {
      Bytes shuffled(1000), back(1000);
      shuffle(bytes.data(), size, element, shuffled.data());
      unshuffle(shuffled.data(), size, element, back.data());
      EXPECT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(size),
                             bytes.begin()));
    }
  }
  Bytes pairs(4);
  shuffle(bytes.data(), 4, 2, pairs.data());
  EXPECT_EQ(pairs, (Bytes{bytes[0], bytes[2], bytes[1], bytes[3]}));
}

TEST(ChunkCodecTest, GivesBackChunksOfEachSize) {
  for (const CompressionCodec name : {CompressionCodec::kLz4, CompressionCodec::kZstandard}) {
    for (const std::size_t element : {1U, 2U, 4U, 8U}) {
      for (const std::size_t size :
           {std::size_t{1}, std::size_t{7}, std::size_t{4099}, kChunkBytes - 1, kChunkBytes}) {
        const ChunkCodec codec{name, 1, element};
        for (const Bytes& bytes : {noise(static_cast<std::int64_t>(size)), Bytes(size)}) {
          Bytes to(compressed_bound(size));
          const std::size_t length = compress_chunk(codec, bytes.data(), size, to.data());
          EXPECT_LE(length, size);
          Bytes back(size);
          decompress_chunk(codec, to.data(), length, back.data(), size);
          EXPECT_EQ(back, bytes);
        }
      }
    }
  }
}

TEST(ChunkCodecTest, NoticesDamage) {
  for (const CompressionCodec name : {CompressionCodec::kLz4, CompressionCodec::kZstandard}) {
    const ChunkCodec codec{name, 1, 1};
    const Bytes bytes(5000);
    Bytes to(compressed_bound(5000));
    const std::size_t length = compress_chunk(codec, bytes.data(), 5000, to.data());
    Bytes back(5000);
    EXPECT_THAT([&] { decompress_chunk(codec, to.data(), length - 1, back.data(), 5000); },
                ThrowsMessage<c10::Error>(HasSubstr("are damaged")));
  }
}

class CodecChoiceTest : public ::testing::Test {
 protected:
  static std::optional<ChunkCodec> chosen(CompressionCodec codec, const at::Tensor& values) {
    CodecChoice choice(codec, 1, 0.9);
    const Bytes bytes = bytes_of(values);
    return choice.choose(static_cast<std::int64_t>(bytes.size()), bytes);
  }
  void SetUp() override { torch::manual_seed(1); }
};

TEST_F(CodecChoiceTest, TakesTheFastCodecUnlessTheOtherSavesAQuarterMore) {
  const at::Tensor values = at::randn({80, 50});
  using enum CompressionCodec;
  EXPECT_EQ(chosen(kAutomatic, at::zeros({1000}))->codec, kLz4);
  EXPECT_EQ(chosen(kAutomatic, values.to(at::kBFloat16))->codec, kZstandard);
  EXPECT_GT(chosen(kAutomatic, values.to(at::kBFloat16))->element_size, 1);
  EXPECT_EQ(chosen(kAutomatic, values), std::nullopt);
  EXPECT_EQ(chosen(kLz4, at::zeros({1000}))->codec, kLz4);
  EXPECT_EQ(chosen(kZstandard, at::zeros({1000}))->codec, kZstandard);
}

TEST_F(CodecChoiceTest, LooksRarelyAtSizesThatNeverBecomeSmaller) {
  CodecChoice choice(CompressionCodec::kAutomatic, 1, 0.9);
  int looks = 0;
  for (int i = 0; i < 1000; ++i) {
    if (choice.is_due(100)) {
      ++looks;
      choice.note_outcome(100, false);
    }
  }
  // 8, then after 1, 2, 4, 8, 16 and 32 others, and one of each 65.
  EXPECT_EQ(looks, 8 + 6 + (1000 - 8 - 63 - 6) / 65);
  EXPECT_TRUE(choice.is_due(101));
}

TEST_F(CodecChoiceTest, LooksAtAllAgainAfterASuccess) {
  CodecChoice choice(CompressionCodec::kAutomatic, 1, 0.9);
  for (int i = 0; i < 8; ++i) {
    choice.note_outcome(100, false);
  }
  EXPECT_FALSE(choice.is_due(100));
  EXPECT_TRUE(choice.is_due(100));
  choice.note_outcome(100, true);
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(choice.is_due(100));
    choice.note_outcome(100, false);
  }
  EXPECT_TRUE(choice.is_due(100));
}

using std::chrono::milliseconds;

TEST(TimeBudgetTest, GrantsItsShareOfTheTimeThatPasses) {
  TimeBudget::Clock::time_point now;
  TimeBudget budget(0.2, now);
  EXPECT_TRUE(budget.has_credit(now));
  budget.spend(milliseconds(300), now);  // 200 were there
  EXPECT_FALSE(budget.has_credit(now += milliseconds(499)));
  EXPECT_TRUE(budget.has_credit(now += milliseconds(2)));
}

TEST(TimeBudgetTest, SavesNoMoreThanASecond) {
  TimeBudget::Clock::time_point now;
  TimeBudget budget(0.2, now);
  now += std::chrono::hours(1);
  budget.spend(milliseconds(199), now);
  EXPECT_TRUE(budget.has_credit(now));
  budget.spend(milliseconds(2), now);
  EXPECT_FALSE(budget.has_credit(now));
}

TEST(TimeBudgetTest, OfNothingEndsAtTheFirstCost) {
  TimeBudget::Clock::time_point now;
  TimeBudget budget(0, now);
  EXPECT_TRUE(budget.has_credit(now));
  budget.spend(milliseconds(0), now);
  EXPECT_TRUE(budget.has_credit(now));
  budget.spend(milliseconds(1), now);
  EXPECT_FALSE(budget.has_credit(now += std::chrono::hours(9)));
}

TEST(TimeBudgetTest, WithoutALimitNeverEnds) {
  TimeBudget::Clock::time_point now;
  TimeBudget budget(std::numeric_limits<double>::infinity(), now);
  EXPECT_TRUE(budget.is_unlimited());
  budget.spend(std::chrono::hours(9), now);
  EXPECT_TRUE(budget.has_credit(now));
}

TEST(RoomAccountTest, GrantsWhatTheLargestStepLeaves) {
  RoomAccount room;
  room.add(100);
  EXPECT_FALSE(room.take(1));
  room.add(100);
  room.give_back(90);  // the first one is compressed to 10
  EXPECT_TRUE(room.take(90));
  EXPECT_FALSE(room.take(1));
  room.remove(100, 10);
  room.remove(100, 190);
  room.add(50);  // the next step
  EXPECT_FALSE(room.take(151));
  EXPECT_TRUE(room.take(150));
  room.remove(50, 200);
  room.add(50);  // the one before had 50
  EXPECT_FALSE(room.take(1));
}

TEST(RoomAccountTest, GrantsWhatIsSavedOnceTensorsLeave) {
  RoomAccount room;
  room.add(100);
  room.add(100);
  room.add(100);
  room.give_back(150);
  room.remove(100, 50);  // backward has begun: 200 were put, 100 are held
  EXPECT_FALSE(room.take(101));
  EXPECT_TRUE(room.take(100));
  room.remove(100, 100);
  EXPECT_FALSE(room.take(1));
  room.add(100);  // another forward: the peak was 300, 200 are held
  EXPECT_FALSE(room.take(101));
  EXPECT_TRUE(room.take(100));
}

TEST(RoomAccountTest, IsExceededWhenTensorsLeaveThatWereCountedOn) {
  RoomAccount room;
  room.add(100);
  room.add(100);
  room.give_back(90);
  EXPECT_TRUE(room.take(90));
  EXPECT_FALSE(room.is_exceeded());
  room.remove(100, 10);  // 100 were put, 190 are held
  EXPECT_TRUE(room.is_exceeded());
  room.give_back(90);
  EXPECT_FALSE(room.is_exceeded());
}

TEST(RoomAccountTest, TensorThatIsRefusedIsNotUsedUp) {
  RoomAccount room;
  room.add(100);
  room.add(100);
  room.give_back(90);
  room.remove(100, 100, /*is_refused=*/true);
  EXPECT_FALSE(room.take(191));
  EXPECT_TRUE(room.take(190));
}

}  // namespace
}  // namespace reprise::hooks_internal
