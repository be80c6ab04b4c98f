// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_TAPE_RESULT_LIST_H_
#define REPRISE_ENGINE_TAPE_RESULT_LIST_H_

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reprise/engine/kept/kept_result.h"

namespace reprise::engine_internal {

// The kinds of the results of all operators, so that a replay can supply them.
class ResultList {
 public:
  enum class Kind : std::uint8_t { kTensor, kTensorList, kOther };
  struct Result {
    Kind kind;
    std::uint32_t tensors;  // their number
    c10::IValue other;      // of kOther
  };
  // The results of one operator.
  struct Range {
    std::uint32_t first = 0, end = 0;
  };

  // Returns nothing, and changes nothing, if a result can be neither retained nor replaced by an
  // empty tensor (sparse tensors, objects).
  std::optional<Range> append(c10::ArrayRef<c10::IValue> results);

  std::span<const Result> results(const Range& range) const {
    return std::span(results_).subspan(range.first, range.end - range.first);
  }

 private:
  bool append_result(const c10::IValue& result);

  // Begins with those of the operators that return one tensor.
  std::vector<Result> results_ = {{Kind::kTensor, 1, {}}};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RESULT_LIST_H_
