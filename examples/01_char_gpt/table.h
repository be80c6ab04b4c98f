// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: table.h
//
// The table of the measurements.
#ifndef CHAR_GPT_TABLE_H_
#define CHAR_GPT_TABLE_H_

#include <ostream>
#include <vector>

#include "measure.h"

namespace char_gpt {

// Ratios and comparisons are with the first of the variants, if it fits and is no other than
// all_variants().front(); "-" stands where there is nothing to compare with.
void print_table(const std::vector<Measurement>& measurements, std::ostream& out);

}  // namespace char_gpt

#endif  // CHAR_GPT_TABLE_H_
