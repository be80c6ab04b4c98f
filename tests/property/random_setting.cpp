// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/random_setting.h"

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/slab_store.h"
#include "tests/engine/under_policies.h"

namespace reprise::testing {
namespace {

using Random = std::mt19937_64;

std::shared_ptr<ActivationStore> random_store(Random& random) {
  switch (pick(random, 7)) {
    case 0:
      return stores::device();
    case 1:
      return stores::packed({.min_bytes = 0, .find_constants = true});
    case 2:
      return stores::host({.min_bytes = 0});
    case 3:
      return stores::slab({});
    case 4:
      return stores::compressed({.min_bytes = 0});
    case 5:
      return stores::disk({.min_bytes = 0});
    default:
      return stores::packed({.min_bytes = 0}) | stores::host({.min_bytes = 0});
  }
}

// The stores of one setting, some of them shared: by a policy and a region inside, say.
class Stores {
 public:
  explicit Stores(Random& random) : random_(random) {}

  std::shared_ptr<ActivationStore> next() {
    if (last_ == nullptr || pick(random_, 2) == 0) {
      last_ = random_store(random_);
    }
    return last_;
  }

 private:
  Random& random_;
  std::shared_ptr<ActivationStore> last_;
};

PolicyHolder random_policy(Random& random, Stores& stores) {
  switch (pick(random, 7)) {
    case 0:
      return policies::save_everything();
    case 1:
      return policies::save_matmuls();
    case 2:
      return policies::keep_in(stores.next(), policies::save_everything());
    case 3:
      return by_ordinal_in(stores.next(), random(), /*must=*/false);
    case 4:
      return policies::save_nothing();
    default:
      return by_ordinal(random());
  }
}

CheckpointOptions random_options(Random& random, Stores& stores) {
  constexpr DeterminismCheck kChecks[] = {DeterminismCheck::kMetadata, DeterminismCheck::kMetadata,
                                          DeterminismCheck::kValues, DeterminismCheck::kNone};
  CheckpointOptions options;
  options.determinism_check = kChecks[pick(random, 4)];
  options.early_stop = pick(random, 5) > 0;
  const bool is_watched = pick(random, 3) > 0;
  options.watch_operators = is_watched || options.determinism_check != DeterminismCheck::kNone;
  if (pick(random, 3) > 0) {
    options.policy = random_policy(random, stores);
    options.respect_saved_tensors_hooks = pick(random, 3) == 0;
  }
  if (pick(random, 4) == 0) {
    options.input_store = stores.next();
  }
  return options;
}

std::string words_for(Form form, const CheckpointOptions& options) {
  return c10::str("form ", static_cast<int>(form), ", check ",
                  static_cast<int>(options.determinism_check),
                  options.watch_operators ? "" : ", not watched", options.policy ? ", policy" : "",
                  options.respect_saved_tensors_hooks ? ", respects hooks" : "",
                  options.input_store ? ", input store" : "");
}

}  // namespace

Setting random_setting(Random& random) {
  constexpr Form kForms[] = {Form::kFunction, Form::kTape, Form::kScope};
  Stores stores(random);
  Setting setting;
  setting.form = kForms[pick(random, 3)];
  setting.options = random_options(random, stores);
  setting.inner_form = kForms[pick(random, 3)];
  setting.inner_options = random_options(random, stores);
  if (pick(random, 5) == 0) {
    setting.guard_store = stores.next();
  }
  setting.words = c10::str(words_for(setting.form, setting.options), "; inside ",
                           words_for(setting.inner_form, setting.inner_options),
                           setting.guard_store ? "; store around" : "");
  return setting;
}

}  // namespace reprise::testing
