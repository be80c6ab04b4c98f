// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: store_row.h
//
// The store that --store names.
#ifndef CHAR_GPT_STORE_ROW_H_
#define CHAR_GPT_STORE_ROW_H_

#include <memory>

#include "options.h"
#include "reprise/hooks/activation_store.h"

namespace char_gpt {

// Of a row such as "packed|host". Throws UsageError for a name that is none.
std::shared_ptr<reprise::ActivationStore> make_store(const Options& options);

}  // namespace char_gpt

#endif  // CHAR_GPT_STORE_ROW_H_
