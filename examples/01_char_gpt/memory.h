// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: memory.h
//
// Counts the bytes of one device's tensors.
#ifndef CHAR_GPT_MEMORY_H_
#define CHAR_GPT_MEMORY_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace char_gpt {

// The bytes that the device's tensors hold now, and their peak since the last reset. On the CPU
// reprise::install_cpu_memory_counter() must have been called.
std::int64_t current_bytes(const c10::Device& device);
std::int64_t peak_bytes(const c10::Device& device);
void reset_peak_bytes(const c10::Device& device);

double to_mebibytes(std::int64_t bytes);

// "12.3 MiB".
std::string mebibytes_text(std::int64_t bytes);

}  // namespace char_gpt

#endif  // CHAR_GPT_MEMORY_H_
