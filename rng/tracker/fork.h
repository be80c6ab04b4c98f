// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Forks of named generator states.
//
// Note [Where a stream stands]: while a fork is active, the state of its stream is the generator's
// state. If another fork begins inside it, the stream's state is the one that the inner fork will
// restore, `Swap::outer`. An inner fork of a name that is active further out starts from that state
// and stores its final state there, so that no number of a stream is drawn twice. Only the
// outermost fork of a name writes to the table.
#ifndef REPRISE_RNG_TRACKER_FORK_H_
#define REPRISE_RNG_TRACKER_FORK_H_

#include <ATen/core/Generator.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/rng/rng_state.h"
#include "reprise/rng/tracker/state_table.h"

namespace reprise::rng_internal {

// A named state of a table.
struct Stream {
  std::shared_ptr<StateTable> table;
  std::string name;
  std::uint64_t seed = 0;

  bool is_same(const Stream& other) const { return table == other.table && name == other.name; }
};

// A generator that a fork has set to a stream.
struct Swap {
  const at::Generator& generator() const { return outer.generator(); }

  std::shared_ptr<const Stream> stream;
  RngState start;  // what it was set to
  RngState outer;  // what it will be set back to
};

// The swaps of the forks that the calling thread is in, the outermost first.
std::vector<Swap> copy_swaps_here();

// Puts the calling thread into forks that made `swaps`, but that restore no generator. Does not
// throw after reserve_swaps_here() of this many.
void reserve_swaps_here(std::size_t count);
void add_swaps_here(std::vector<Swap>& swaps) noexcept;
void remove_swaps_here(const std::vector<Swap>& swaps) noexcept;

// One fork. Must end on the thread that it began on.
class Fork {
 public:
  // Throws std::invalid_argument if `table` has no such name; what `RngState`'s functions throw.
  Fork(std::shared_ptr<StateTable> table, std::string_view name);
  ~Fork() { leave(); }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

 private:
  struct Errors {
    std::exception_ptr keeping;
    std::exception_ptr restoring;
  };

  void enter(const at::Generator& generator);
  void leave() noexcept;
  static std::exception_ptr try_to_set(const RngState& state) noexcept;
  static Errors take_back(Swap& swap) noexcept;
  // above: the next swap of the same generator, if any, which has the stream's state.
  static void keep(Swap& swap, const Swap* above);
  static void store(const Stream& stream, const RngState& end);

  std::shared_ptr<const Stream> stream_;
  c10::SmallVector<Swap, 2> swaps_;  // does not grow after the constructor: others point into it
};

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_TRACKER_FORK_H_
