// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How a random program is run: the forms of its regions, their options, policies and stores.
#ifndef REPRISE_TESTS_PROPERTY_RANDOM_SETTING_H_
#define REPRISE_TESTS_PROPERTY_RANDOM_SETTING_H_

#include <memory>
#include <random>
#include <string>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/hooks/activation_store.h"
#include "tests/property/random_program.h"

namespace reprise::testing {

struct Setting {
  Form form = Form::kPlain;
  CheckpointOptions options;
  Form inner_form = Form::kPlain;
  CheckpointOptions inner_options;
  std::shared_ptr<ActivationStore> guard_store;
  std::string words;
};

Setting random_setting(std::mt19937_64& random);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_RANDOM_SETTING_H_
