// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators that a scope's forward ran, recorded so that each of its values can be recomputed.
//
// Note [Values on the tape]: a value is the contents of a storage at one moment: after the operator
// that made it, or after one that wrote to it in place. An argument or a slot is a value and a
// geometry (shape, strides, offset, dtype) to look at it through. Views are therefore no operators,
// and a slot receives the contents of its tensor at the time of saving, regardless of later writes.
//
// Values that no operator of the tape makes are its inputs ("given"): tensors from outside, results
// that the policy saves, and values that were made outside the dispatcher.
//
// Note [Refilled memory]: memory that an operator of the region gives new contents as a whole is
// the region's own from then on, whoever has allocated it: a workspace, a recycled buffer, the
// parameters that FSDP2 gathers. A replay reads it in place while it still holds what the region
// left there, and otherwise fills memory of the replay's own, by the same operator. Writes through
// an alias with a version counter of its own are not counted, so that all bytes are compared, on
// the CPU; elsewhere only memory that was freed and gathered again is read in place. No slot over
// memory that its owner has freed is filled before it is asked for: its owner may have gathered it
// again by then.
//
// Note [Assembled tensors]: a tensor of a class of the embedding language (DTensor, a jagged
// tensor) has its elements in other tensors. The tape has the operators that its class runs on
// these: where an operator on such a tensor is intercepted, its own are intercepted in its place.
// What autograd saves is the tensor itself: for each such slot, an operator without a kernel makes
// the tensor of the values that the region has made of its parts. The other parts stay in it as
// they are: by a table of integers, as the offsets of a jagged tensor, a class knows which tensors
// have one shape.
#ifndef REPRISE_ENGINE_TAPE_TAPE_H_
#define REPRISE_ENGINE_TAPE_TAPE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/base/ids/strong_id.h"
#include "reprise/engine/ambient/compute_modes.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/kept/held_value.h"
#include "reprise/engine/kept/kept_result.h"
#include "reprise/engine/kept/region_input.h"
#include "reprise/engine/kept/weak_alias.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/engine/watch/memory_sample.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// How a tensor looks at its storage.
struct Geometry {
  using Dims = absl::InlinedVector<std::int64_t, 4>;

  explicit Geometry(const at::Tensor& tensor);
  friend bool operator==(const Geometry&, const Geometry&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const Geometry& g) {  // NOLINT(readability-identifier-naming)
    return H::combine(std::move(hash), g.sizes, g.strides, g.offset, g.dtype, g.is_conj, g.is_neg);
  }

  // Returns whether this is the tensor's geometry, without constructing that.
  bool is_of(const at::Tensor& tensor) const;

  // Returns a tensor of this geometry over the storage of `base`, whose offset is `shift` larger
  // than that of the tensor in forward. It shares the version counter of `base`.
  at::Tensor look_at(const at::Tensor& base, std::int64_t shift) const;

  Dims sizes;
  Dims strides;
  std::int64_t offset;
  c10::ScalarType dtype;
  bool is_conj;
  bool is_neg;
};

using TapeValueId = base_internal::StrongId<class TapeValueTag>;
using TapeOperatorId = base_internal::StrongId<class TapeOperatorTag>;
using GeometryId = base_internal::StrongId<class GeometryTag>;
using TapeValueSet = base_internal::IdSet<TapeValueId>;
using TapeOperatorSet = base_internal::IdSet<TapeOperatorId>;

class Tape {
 public:
  static constexpr base_internal::NoId kNone{};

  struct Tensor {
    TapeValueId value;
    GeometryId geometry;            // none: the tape input as it is
    bool is_written_since = false;  // of a slot, by the operator that it was saved for
    bool is_input = false;          // of a slot: of a region inside, which forward read then
  };

  struct Argument {
    enum class Kind : std::uint8_t { kConstant, kTensor, kTensorList, kOptionalTensorList };
    Argument(Kind kind, std::uint32_t number, GeometryId geometry, std::uint8_t same_as = 0)
        : kind(kind), same_as(same_as), number(number), geometry(geometry) {}
    Kind kind;
    // An operator may take another way if it receives one object twice (is_same): the place, from
    // 1, of the operator's argument that is the same one; 0 if none is.
    std::uint8_t same_as;
    std::uint32_t number;  // of the constant or of the value, or the number of elements that follow
    GeometryId geometry;   // of kTensor
  };

  // A tensor result that is a storage of its own.
  struct Made {
    TapeValueId value;
    GeometryId geometry;
    std::uint16_t ordinal;  // among the tensors of the operator's results
    c10::Device device = c10::kCPU;
  };

  // A storage that is written in place. `after` is none if the write is an effect: replays write to
  // a copy.
  struct Write {
    TapeValueId before;
    TapeValueId after;
    GeometryId reshaped = {};  // of function regions: the target's, if the write changes it
  };

  struct Operator {
    c10::OperatorHandle op;
    std::uint32_t first_argument = 0, end_argument = 0;
    std::uint32_t first_made = 0, end_made = 0;
    std::uint32_t first_write = 0, end_write = 0;
    std::uint32_t context = 0;
    std::uint32_t random = kNone;
    std::uint32_t ordinal = 0;  // among all operators of forward
    CheckpointPolicy decision = CheckpointPolicy::PREFER_RECOMPUTE;
    Transfer transfer = Transfer::kNone;
    bool is_required : 1 = false;  // in each session, before all else: see Note [Transfers]
    bool is_cheap : 1 = false;     // see OperatorTraits
    bool is_asked : 1 = false;     // the policy was asked
    bool is_hidden : 1 = false;    // under a PolicyBypassGuard
    bool runs_once : 1 = false;    // of planned tapes: see RunsOnce
    bool is_assembly : 1 = false;  // see Note [Assembled tensors]
    bool is_forced = false;        // by must_save() or must_recompute()
    float seconds = 0;             // if known, of planned tapes
    std::int64_t bytes = 0;        // likewise, that it has allocated at once
  };

  // The state around an operator.
  struct Context {
    c10::impl::LocalDispatchKeySet keys;
    c10::ScalarType default_dtype;
    bool is_deterministic;
    bool is_grad_enabled;   // read by kernels, though no graph is built below autograd
    std::uint32_t compute;  // kNone: the region's
  };

  struct Value {
    TapeOperatorId op;  // that made or wrote it
    // The time that it is made from which on it stays: see planner::Choice. Only for planned tapes.
    std::uint8_t retained_from = 1;
    bool is_made_once = false;  // likewise: what needs it again has to find it, see RefilledReads
  };

  // A tape input: a value that is available without running an operator.
  struct Given {
    enum class Why : std::uint8_t {
      kOutside,     // a tensor from outside the region
      kPolicy,      // saved by the policy
      kOutOfSight,  // no operator of the tape makes it
      kCopied,      // from outside, as it was before the region wrote to it
      kScratch,     // from outside; the operators that take it do not read it
      kUnset,       // memory that an operator fills; the replay allocates its own
    };
    Why why;
    bool is_parameter : 1 = false;
    bool is_whole_sample : 1 = false;  // of all bytes
    c10::Device device = c10::kCPU;    // of kUnset
    GeometryId geometry;               // of the tensor in `kept` or `input`
    KeptResult kept;
    std::optional<RegionInput> input;  // instead, when forward has ended
    MemorySample sample = 0;           // of the contents that an operator has read; 0: unknown
    at::Tensor parameter;              // instead of both: as it is when a replay reads it
    std::optional<std::string> lost;   // error message, if it has been overwritten
  };

  // Memory that the region has filled as a whole and that may outlive it: see Note [Refilled
  // memory].
  struct Refilled {
    explicit Refilled(const at::Tensor& whole);
    // Forward has ended. is_current: nothing has been written to the memory since. is_managed: its
    // owner fills it with the same contents, in whatever way.
    void complete(bool is_current, bool is_managed);
    // Returns a tensor over the whole memory; undefined unless that is known to hold the value.
    at::Tensor now() const;

    WeakAlias whole;
    std::int64_t version;  // when the region had filled it; -1: never known to hold the value
    bool is_complete = false;
    MemorySample sample = 0;  // of all bytes, unless they had been freed when forward ended
  };

  std::span<const Made> made_by(const Operator& op) const {
    return std::span(made).subspan(op.first_made, op.end_made - op.first_made);
  }
  std::span<const Write> writes_of(const Operator& op) const {
    return std::span(writes).subspan(op.first_write, op.end_write - op.first_write);
  }
  // Calls `visitor` with each value that the operator makes, or leaves in memory that it writes.
  void for_each_outcome(const Operator& op, const auto& visitor) const {
    for (const Made& each : made_by(op)) {
      visitor(each.value);
    }
    for (const Write& write : writes_of(op)) {
      if (write.after != kNone) {
        visitor(write.after);
      }
    }
  }

  // Calls `visitor` with each tensor that the operator takes.
  void for_each_tensor_argument(const Operator& op, const auto& visitor) const {
    for (std::uint32_t i = op.first_argument; i < op.end_argument; ++i) {
      if (arguments[i].kind == Argument::Kind::kTensor) {
        visitor(Tensor{TapeValueId(arguments[i].number), arguments[i].geometry});
      }
    }
  }
  // The same with each value that it depends on, including the values that it writes to.
  void for_each_use(const Operator& op, const auto& visitor) const {
    for_each_tensor_argument(op, [&](const Tensor& tensor) { visitor(tensor.value); });
    for (const Write& write : writes_of(op)) {
      visitor(write.before);
    }
  }

  // Calls `visitor` with the value of a slot, or those of the parts of an assembled tensor.
  void for_each_value_of(const Tensor& slot, const auto& visitor) const {
    const TapeOperatorId op = slot.value == kNone ? TapeOperatorId() : values[slot.value].op;
    if (op != kNone && operators[op].is_assembly) {
      for_each_use(operators[op], visitor);
    } else if (slot.value != kNone) {
      visitor(slot.value);
    }
  }

  // Returns the size of everything but the tape inputs, including the use counts.
  std::size_t bytes() const;

  bool has_required = false;   // operators
  bool has_assembled = false;  // tensors

  // Retained values that are modified in place after forward are recomputed.
  bool allow_mutation = false;

  // All retained values are recomputed: while forward runs inside another region. A tensor that a
  // backward in this region receives becomes an input of the outer region, whose replay, in which
  // no policy saves anything, must have as many.
  bool recomputes_kept = false;

  base_internal::IdVector<TapeOperatorId, Operator> operators;
  std::vector<Argument> arguments;
  std::vector<Made> made;
  std::vector<Write> writes;
  base_internal::IdVector<TapeValueId, Value> values;
  base_internal::IdVector<GeometryId, Geometry> geometries;
  std::vector<c10::IValue> constants;
  std::vector<Context> contexts;
  std::vector<ComputeModes> compute;  // that the region's code has set
  std::vector<RandomDraw> random;
  absl::flat_hash_map<TapeValueId, Given> given;
  absl::flat_hash_map<TapeValueId, Refilled> refilled;
  base_internal::IdVector<SlotId, Tensor> slots;
  // Slots without a value: saved on another thread than the recorder's, by a backward inside.
  absl::flat_hash_map<SlotId, KeptResult> held;
  std::uint32_t generation = 0;  // counts the changes of the operators' numbers
};

// Appends the values that are there without running an operator of the tape.
void append_given(const decltype(Tape::given)& values, const Tape& tape, HeldValues& held);

// Returns an error message: the metadata of a tensor from outside, as recorded and now.
std::string describe_loss(const Tape::Given& given);

// Returns the whole storage of a tensor, as one dimension.
at::Tensor flat(const at::Tensor& tensor);
// The same of a storage that had or will have that many bytes.
at::Tensor flat(const at::Tensor& tensor, std::int64_t bytes);

// Returns whether `whole` covers all elements of `part`, without gaps or overlaps.
bool covers(const Geometry& whole, const Geometry& part);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_H_
