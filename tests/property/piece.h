// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One step of a random program that has a state of its own, as a layer has: it is made anew, from a
// seed, for each run of the program.
#ifndef REPRISE_TESTS_PROPERTY_PIECE_H_
#define REPRISE_TESTS_PROPERTY_PIECE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/property/kinds.h"

namespace reprise::testing {

class Piece {
 public:
  Piece() = default;
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  virtual ~Piece() = default;

  // Takes a float tensor [4, 6], gives a tensor of any shape. `call`: which of the program's calls,
  // in all of its forwards; the same in a replay.
  virtual at::Tensor run(const at::Tensor& x, std::size_t call) = 0;
  // What the user's code does between the forwards and the backwards.
  virtual void between_passes() {}
  // Returns the tensor that the program passes to its regions, in a region as received there;
  // undefined for none.
  const at::Tensor& argument() const { return received_.defined() ? received_ : argument_; }
  // Returns the one before. An undefined tensor: outside of regions.
  at::Tensor receive(at::Tensor argument) { return std::exchange(received_, std::move(argument)); }
  // Returns whether saved-tensor hooks that copy change the result: a tape copies an input when its
  // region ends.
  virtual bool differs_in_hooks() const { return false; }
  // Whether its kind's allowed error may come of this one.
  virtual bool may_end_in_error() const { return true; }
  // What a forward adds to its loss beside its result, of its calls from `first` on. Or undefined.
  virtual at::Tensor auxiliary(std::size_t /*first*/) const { return {}; }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // What user code can read after forward and after backward.
  std::vector<at::Tensor> kept() const;

 protected:
  // The `which`-th of that call.
  void keep(std::size_t call, at::Tensor tensor, std::size_t which = 0);

  at::Tensor parameter(at::IntArrayRef sizes);
  at::Tensor buffer(at::Tensor tensor);
  void pass(at::Tensor argument) { argument_ = std::move(argument); }
  // Returns the argument, if there is one, otherwise the piece's own tensor.
  at::Tensor argument_or(const at::Tensor& own) const {
    return argument().defined() ? argument() : own;
  }

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  at::Tensor argument_;
  at::Tensor received_;
  std::map<std::pair<std::size_t, std::size_t>, at::Tensor> kept_;
};

// is_plain: for code that plain autograd runs with other memory (a fresh copy instead of a buffer
// that is filled again).
std::shared_ptr<Piece> make_piece(Kind kind, std::mt19937_64& random, bool is_plain);

using PieceRandom = std::mt19937_64;

// In the files that have them.
std::shared_ptr<Piece> members_piece(PieceRandom& random);
std::shared_ptr<Piece> accumulated_piece();
std::shared_ptr<Piece> set_data_piece(PieceRandom& random);
std::shared_ptr<Piece> detached_piece(PieceRandom& random);
std::shared_ptr<Piece> member_swaps_piece(PieceRandom& random);
std::shared_ptr<Piece> data_swaps_piece(PieceRandom& random);
std::shared_ptr<Piece> unused_piece(PieceRandom& random);
std::shared_ptr<Piece> workspaces_piece(PieceRandom& random);
std::shared_ptr<Piece> lazy_state_piece(PieceRandom& random);
std::shared_ptr<Piece> lazy_buffer_piece(PieceRandom& random);
std::shared_ptr<Piece> units_piece(PieceRandom& random);
std::shared_ptr<Piece> streamed_piece(PieceRandom& random, bool is_plain, bool takes_turns);
std::shared_ptr<Piece> pointers_piece(PieceRandom& random);
std::shared_ptr<Piece> outside_pointers_piece(PieceRandom& random);
std::shared_ptr<Piece> read_back_piece(PieceRandom& random);
std::shared_ptr<Piece> layers_with_state_piece(PieceRandom& random);
std::shared_ptr<Piece> uncounted_piece(PieceRandom& random);
std::shared_ptr<Piece> operators_piece(Kind kind, PieceRandom& random, bool is_plain);
std::shared_ptr<Piece> wrappers_piece(PieceRandom& random);
std::shared_ptr<Piece> threads_piece(PieceRandom& random, bool inherits);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_PIECE_H_
