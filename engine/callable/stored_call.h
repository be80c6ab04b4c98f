// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A copy of the user's callable and arguments, to be called again.
#ifndef REPRISE_ENGINE_CALLABLE_STORED_CALL_H_
#define REPRISE_ENGINE_CALLABLE_STORED_CALL_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/engine/callable/invoke_callable.h"
#include "reprise/engine/callable/region_code.h"
#include "reprise/engine/callable/tensor_visitor.h"

namespace reprise::engine_internal {

// Whether `checkpoint()` can take this callable with these arguments. The code that would use them
// is not compiled if it cannot: its own errors would hide the reason that check() gives.
template <class F, class... Args>
struct ValidCall {
  static constexpr bool kIsCallable = Callable<std::remove_reference_t<F>, Args...>;
  static constexpr bool kIsStorable =
      !std::is_lvalue_reference_v<F> || std::is_copy_constructible_v<std::decay_t<F>>;
  static constexpr bool kHasStorableArguments =
      (std::is_copy_constructible_v<std::decay_t<Args>> && ...);
  static constexpr bool value = kIsCallable && kIsStorable && kHasStorableArguments;

  // Stops the compilation if it cannot. Not a part of the class: to Clang a class whose assertion
  // has failed has no value.
  static constexpr void check() {
    static_assert(kIsCallable,
                  "reprise::checkpoint: the first argument can neither be called with the others "
                  "nor has it a member function forward() that takes them");
    static_assert(kIsStorable,
                  "reprise::checkpoint: this callable cannot be copied; pass it with std::move, or "
                  "a reference that outlives backward with std::ref");
    static_assert(
        kHasStorableArguments,
        "reprise::checkpoint: an argument cannot be copied, but the replay needs it as "
        "well; pass a std::shared_ptr, or a reference that outlives backward with std::ref");
  }
};

// What braces without a type become, as an argument. An argument with a type is never one.
struct Braces {
  Braces() = default;
  template <class... Elements>
  Braces(Elements&&... /*elements*/) {}  // NOLINT(*-explicit-*,*-forwarding-reference-overload)
};

template <class F>
void reject_braces() {
  static_assert(std::is_void_v<F>,
                "reprise::checkpoint: {...} as an argument has no type; name it, as in "
                "std::vector<at::Tensor>{a, b} or at::Tensor(), or call in a lambda. Options come "
                "first: checkpoint({.name = ...}, function, arguments...)");
}

// How an argument is stored until the replay: by value, with elements of its own if the argument's
// type is non-owning.
template <class T>
struct Stored {
  using type = T;
};
template <class T>
requires(!std::same_as<T, bool>) struct Stored<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <class T>
requires(!std::same_as<std::remove_cv_t<T>, bool>) struct Stored<std::span<T>> {
  using type = std::vector<std::remove_cv_t<T>>;
};
template <>
struct Stored<std::string_view> {
  using type = std::string;
};

template <class T>
struct Stored<c10::OptionalArrayRef<T>> {
  using type = std::optional<std::vector<T>>;
};

template <class Arg>
using StoredArgument = typename Stored<std::decay_t<Arg>>::type;

template <class Arg>
StoredArgument<Arg> store_argument(const std::remove_reference_t<Arg>& argument) {
  if constexpr (std::same_as<StoredArgument<Arg>, std::decay_t<Arg>>) {
    return argument;
  } else if constexpr (requires { argument.has_value(); }) {
    return argument.has_value()
               ? StoredArgument<Arg>(std::in_place, argument->begin(), argument->end())
               : StoredArgument<Arg>();
  } else {
    return StoredArgument<Arg>(argument.begin(), argument.end());
  }
}

// Returns the bytes of the tensors in the arguments.
template <class... Args>
std::int64_t tensor_bytes(const std::remove_reference_t<Args>&... arguments) {
  std::tuple<StoredArgument<Args>...> stored(store_argument<Args>(arguments)...);
  std::int64_t bytes = 0;
  visit_tensors(stored, [&bytes]<class T>(T& found) {
    if constexpr (std::same_as<T, at::Tensor>) {
      bytes += found.defined() ? found.numel() * static_cast<std::int64_t>(found.itemsize()) : 0;
    }
  });
  return bytes;
}

// Returns the stored value with the type and value category of the caller's argument.
template <class Arg, class T>
decltype(auto) pass_argument(T& stored) {
  if constexpr (!std::same_as<T, std::decay_t<Arg>>) {
    return std::decay_t<Arg>(stored);
  } else if constexpr (std::is_lvalue_reference_v<Arg>) {
    return (stored);
  } else {
    return std::move(stored);
  }
}

// F and Args as deduced for forwarding references.
template <class F, class... Args>
class StoredCall final : public RegionCode {
 public:
  explicit StoredCall(F&& fn, const std::remove_reference_t<Args>&... arguments)
      : callable_(keep(fn)), arguments_(store_argument<Args>(arguments)...) {}

  void take_inputs(RegionInputs& inputs) override {
    visit_tensors(arguments_, [&inputs]<class T>(T& found) {
      if constexpr (std::same_as<T, at::Tensor>) {
        inputs.add(std::exchange(found, at::Tensor()));
      } else {
        inputs.add(found);
      }
    });
  }

  // Returns the callable for forward: the caller's object if that was copied, otherwise the one
  // moved in here.
  std::remove_reference_t<F>& forward_callable(std::remove_reference_t<F>& callers) {
    if constexpr (kCopied) {
      return callers;
    } else {
      return callable_;
    }
  }

  void run(std::span<const at::Tensor> inputs) override {
    auto arguments = arguments_;
    std::size_t next = 0;
    visit_tensors(arguments, [&inputs, &next]<class T>(T& found) {
      if constexpr (std::same_as<T, at::Tensor>) {
        found = inputs[next++];
      }
    });
    std::apply(
        [this](auto&... stored) {
          if constexpr (kHasState) {
            Callable callable = callable_;
            static_cast<void>(invoke_callable(callable, pass_argument<Args>(stored)...));
          } else {
            static_cast<void>(invoke_callable(callable_, pass_argument<Args>(stored)...));
          }
        },
        arguments);
  }

 private:
  using Callable = std::decay_t<F>;

  // Each run of a callable with mutable state (a mutable lambda) starts from the state in which it
  // was passed.
  static constexpr bool kHasState =
      std::is_copy_constructible_v<Callable> && !std::is_invocable_v<const Callable&, Args...>;
  static constexpr bool kCopied = std::is_lvalue_reference_v<F> || kHasState;

  static decltype(auto) keep(std::remove_reference_t<F>& callers) {
    if constexpr (kCopied) {
      return (callers);
    } else {
      return std::move(callers);
    }
  }

  Callable callable_;
  std::tuple<StoredArgument<Args>...> arguments_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_STORED_CALL_H_
