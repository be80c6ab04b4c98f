// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// c10d's Work, without c10d's headers, which a LibTorch need not have.
#ifndef REPRISE_ENGINE_OPERATORS_C10D_WORK_H_
#define REPRISE_ENGINE_OPERATORS_C10D_WORK_H_

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

namespace reprise::engine_internal {

// Returns whether the value is an object of c10d: a group, a reduction, a Work.
bool is_of_c10d(const c10::IValue& value);

// Waits for each Work among the results of an operator; on an accelerator whose backend has
// streams, the current stream waits. Throws c10d's error if the transfer has failed.
void wait_for_work(c10::ArrayRef<c10::IValue> results);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_C10D_WORK_H_
