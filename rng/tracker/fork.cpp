// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/tracker/fork.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "reprise/rng/generators/default_generators.h"
#include "reprise/rng/generators/warnings.h"

namespace reprise::rng_internal {
namespace {

// All swaps of the process, in the order in which generators were set; and one lock for all of
// them. Two threads may be in forks at once, each with a device of its own, and both have the CPU's
// generator as well. Regardless of their order of ending, that generator is finally restored to its
// state before the first fork.
struct Swaps {
  std::mutex mutex;
  std::vector<Swap*> in_order;
};

Swaps& swaps() {
  static auto& swaps = *new Swaps;
  return swaps;
}

// Innermost last; includes the forks of a replay's forward, for which no generator is restored.
thread_local std::vector<Swap*> t_swaps;

// The relation of a stream to the forks that the calling thread is in.
struct Place {
  bool is_active = false;
  Swap* inner = nullptr;  // if it is active: the swap of the next inner fork, if any
};

// before: consider only swaps made before this one, if it is not null.
Place place_of(const Stream& stream, const at::Generator& generator, const Swap* before = nullptr) {
  auto next = t_swaps.rbegin();
  if (before != nullptr) {
    next = std::find(next, t_swaps.rend(), before);
    if (next == t_swaps.rend()) return {};
    ++next;
  }
  Place place;
  for (; next != t_swaps.rend(); ++next) {
    if ((*next)->generator() != generator) continue;
    if ((*next)->stream->is_same(stream)) {
      place.is_active = true;
      return place;
    }
    place.inner = *next;
  }
  return {};
}

RngState stored_state(const Stream& stream, const at::Generator& generator) {
  const auto states = stream.table->get();
  if (const auto found = states->find(stream.name); found != states->end()) {
    for (const RngState& state : found->second.generators) {
      if (state.generator() == generator) return state;
    }
  }
  return RngState::seeded(generator, stream.seed);
}

std::string names_of(const States& states) {
  std::string names;
  for (const auto& [name, state] : states) {
    names += c10::str(names.empty() ? "'" : ", '", name, "'");
  }
  return names.empty() ? "none" : names;
}

void erase(std::vector<Swap*>& from, const Swap* swap) noexcept {
  from.erase(std::remove(from.begin(), from.end(), swap), from.end());
}

}  // namespace

std::vector<Swap> copy_swaps_here() {
  std::vector<Swap> copies;
  if (t_swaps.empty()) return copies;
  const std::scoped_lock lock(swaps().mutex);
  for (const Swap* swap : t_swaps) copies.push_back(*swap);
  return copies;
}

void reserve_swaps_here(std::size_t count) { t_swaps.reserve(t_swaps.size() + count); }

void add_swaps_here(std::vector<Swap>& swaps) noexcept {
  for (Swap& swap : swaps) t_swaps.push_back(&swap);
}

void remove_swaps_here(const std::vector<Swap>& swaps) noexcept {
  for (const Swap& swap : swaps) erase(t_swaps, &swap);
}

Fork::Fork(std::shared_ptr<StateTable> table, std::string_view name) {
  ++tracker_uses().uses;
  const auto states = table->get();
  const auto found = states->find(name);
  if (found == states->end()) {
    throw std::invalid_argument(c10::str("[rng.fork] no generator state has this name; received '",
                                         name, "', and the tracker has ", names_of(*states),
                                         "; add() it first, or call model_parallel_manual_seed()"));
  }
  stream_ = std::make_shared<const Stream>(
      Stream{std::move(table), std::string(name), found->second.seed});
  const auto generators = default_generators_here();
  swaps_.reserve(generators.size());
  try {
    for (const at::Generator& generator : generators) enter(generator);
  } catch (...) {
    leave();
    throw;
  }
}

void Fork::enter(const at::Generator& generator) {
  std::unique_lock lock(swaps().mutex);
  const Place place = place_of(*stream_, generator);
  if (place.is_active && place.inner == nullptr) return;  // the generator is this stream already
  RngState outer = RngState::capture(generator);
  RngState start = place.is_active ? place.inner->outer : stored_state(*stream_, generator);
  swaps().in_order.reserve(swaps().in_order.size() + 1);
  reserve_swaps_here(1);
  try {
    start.set_generator();
  } catch (...) {
    const std::exception_ptr error = try_to_set(outer);
    lock.unlock();
    if (error) warn_not_restored(generator.device(), error);
    throw;
  }
  Swap& swap = swaps_.emplace_back(Swap{stream_, std::move(start), std::move(outer)});
  swaps().in_order.push_back(&swap);
  t_swaps.push_back(&swap);
}

std::exception_ptr Fork::try_to_set(const RngState& state) noexcept {
  try {
    state.set_generator();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void Fork::leave() noexcept {
  while (!swaps_.empty()) {
    const at::Device device = swaps_.back().generator().device();
    const Errors errors = take_back(swaps_.back());
    swaps_.pop_back();
    if (errors.keeping) warn_not_kept(stream_->name, device, errors.keeping);
    if (errors.restoring) warn_not_restored(device, errors.restoring);
  }
}

// Does not warn itself: a warning handler must not run under the lock.
Fork::Errors Fork::take_back(Swap& swap) noexcept {
  const std::scoped_lock lock(swaps().mutex);
  auto& in_order = swaps().in_order;
  const auto later = std::find_if(
      std::find(in_order.begin(), in_order.end(), &swap), in_order.end(),
      [&](const Swap* other) { return other != &swap && other->generator() == swap.generator(); });
  Swap* const above = later == in_order.end() ? nullptr : *later;
  Errors errors;
  try {
    keep(swap, above);
  } catch (...) {
    errors.keeping = std::current_exception();
  }
  if (above != nullptr) {
    above->outer = swap.outer;  // the generator now belongs to another fork, which ends later
  } else {
    errors.restoring = try_to_set(swap.outer);
  }
  erase(in_order, &swap);
  erase(t_swaps, &swap);
  return errors;
}

void Fork::keep(Swap& swap, const Swap* above) {
  const bool is_unmoved = above == nullptr && swap.start.is_current();
  const RngState end = is_unmoved         ? swap.start
                       : above != nullptr ? above->outer
                                          : RngState::capture(swap.generator());
  const bool has_moved = !is_unmoved && !(end == swap.start);
  tracker_uses().draws += has_moved ? 1 : 0;
  const Place place = place_of(*swap.stream, swap.generator(), &swap);
  if (place.is_active) {
    (place.inner == nullptr ? swap : *place.inner).outer = end;
  } else if (has_moved) {
    store(*swap.stream, end);
  }
}

// Does nothing if the name has been removed from the table since, or added again.
void Fork::store(const Stream& stream, const RngState& end) {
  stream.table->change([&](States& states) {
    const auto found = states.find(stream.name);
    if (found == states.end() || found->second.seed != stream.seed) return;
    std::vector<RngState>& known = found->second.generators;
    const auto same = std::find_if(known.begin(), known.end(), [&](const RngState& state) {
      return state.generator() == end.generator();
    });
    if (same == known.end()) {
      known.push_back(end);
    } else {
      *same = end;
    }
  });
}

}  // namespace reprise::rng_internal
