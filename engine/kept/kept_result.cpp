// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/kept_result.h"

#include <ATen/ops/clone.h>

#include <utility>

#include "reprise/engine/kept/graphless_alias.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/storage_view.h"
#include "reprise/hooks/stored/exact_tensor.h"
#include "reprise/hooks/stored/offload_store.h"

namespace reprise::engine_internal {

using hooks_internal::share_unseen;
using hooks_internal::UnseenScope;

KeptResult::KeptResult(const at::Tensor& tensor, std::shared_ptr<ActivationStore> place)
    : alias(graphless_alias(tensor)),
      version(version_of(tensor)),
      moment(current_write_moment()),
      store(std::move(place)) {}

void KeptResult::put_away() {
  if (store && alias.defined() && !is_in_flight && !is_mutated()) {
    const UnseenScope unseen;
    const at::Tensor tensor = std::exchange(alias, at::Tensor());  // an eviction must not take it
    try {
      stored = share_unseen(store->put(tensor));
      origin =
          std::make_unique<hooks_internal::StorageOrigin>(hooks_internal::storage_bytes(tensor));
    } catch (...) {
      alias = tensor;
      throw;
    }
  }
}

void KeptResult::take_snapshot(const at::Tensor& tensor) {
  if (is_snapshot || (!stored && !alias.defined())) {
    return;
  }
  const UnseenScope unseen;
  const at::Tensor copy = at::clone(hooks_internal::detached_alias(tensor));
  if (stored) {
    stored = share_unseen(store->put(copy));
    origin.reset();
  } else {
    alias = copy;
    version = version_of(alias);
  }
  is_snapshot = true;
}

at::Tensor KeptResult::get() const {
  if (!stored && !packed && !is_snapshot) {
    return alias;
  }
  const UnseenScope unseen;
  if (stored) {
    return is_snapshot ? stored->get_own() : stored->get();
  }
  const at::Tensor tensor = packed ? packed->call_unpack_hook() : alias;
  return is_snapshot ? at::clone(tensor) : tensor;
}

std::optional<at::Tensor> KeptResult::get_unless_mutated() const {
  if (is_written_through_pointer() || (is_mutated() && !stored)) {
    return std::nullopt;
  }
  try {
    at::Tensor result = get();
    return is_read_too_late(result) ? std::nullopt : std::optional(std::move(result));
  } catch (const c10::Error&) {
    if (is_mutated()) {  // too early for the store
      return std::nullopt;
    }
    throw;
  }
}

bool KeptResult::is_written_through_pointer() const {
  return has_sample() && holds_other_bytes(origin ? origin->find_alive() : alias);
}

// The code has written to the memory through a pointer, and released the memory, before the store
// has read it.
bool KeptResult::is_read_too_late(const at::Tensor& result) const {
  return has_sample() && origin && hooks_internal::is_exact(*stored) && is_dense(result) &&
         static_cast<std::int64_t>(result.storage().nbytes()) == origin->size() &&
         holds_other_bytes(result);
}

bool KeptResult::holds_other_bytes(const at::Tensor& memory) const {
  return memory.defined() && sample_memory(memory, /*of_all_bytes=*/false) != sample;
}

std::string KeptResult::describe_mutation() const {
  if (!alias.defined()) {
    return c10::str("a tensor put into a store at version ", version,
                    " was changed before the store had read it");
  }
  const std::string tensor = TensorMetadata(alias).to_string();
  return is_mutated() ? c10::str(tensor, ", kept at version ", version, ", is now at version ",
                                 version_of(alias))
                      : tensor + " was written through a pointer";
}

std::shared_ptr<ActivationStore> store_of(const PolicyAnswer& answer, const at::Tensor& result) {
  const bool is_to_move = is_offload(answer.policy) && !result.is_cpu();
  return answer.store == nullptr && is_to_move ? hooks_internal::offload_store() : answer.store;
}

bool is_keepable(const at::Tensor& tensor) {
  return is_dense(tensor) && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace reprise::engine_internal
