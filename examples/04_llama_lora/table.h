// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: table.h
//
// The measurements as text.
#ifndef LLAMA_LORA_TABLE_H_
#define LLAMA_LORA_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "measure.h"

namespace llama_lora {

// "12.34 MiB".
std::string mebibytes_text(std::int64_t bytes);

// Losses and gradients, byte by byte.
bool is_bitwise_equal(const Measurement& a, const Measurement& b);

// A row for each measurement, compared with the first one.
std::string table_text(const std::vector<Measurement>& measurements);

}  // namespace llama_lora

#endif  // LLAMA_LORA_TABLE_H_
