// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The functions that `checkpoint_sequential()` runs, copied from the caller's list. LibTorch's
// module types are recognised by their members, so that this file does not include torch/nn.
#ifndef REPRISE_ENGINE_CALLABLE_FUNCTION_LIST_H_
#define REPRISE_ENGINE_CALLABLE_FUNCTION_LIST_H_

#include <ATen/core/Tensor.h>
#include <c10/util/Type.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/callable/erased_values.h"
#include "reprise/engine/callable/invoke_callable.h"

namespace reprise::engine_internal {

// torch::nn::AnyModule: takes and returns a value whose type is known at run time only.
template <class F>
concept ErasedFunction = requires(F& function) {
  function.any_forward(at::Tensor());
};

template <class F, class Value>
concept OneValueFunction = ErasedFunction<F> || Callable<F, Value>;

// Calls `function` with one value.
template <class F, class Value>
requires OneValueFunction<F, Value>
auto apply_function(F& function, Value&& value) {
  if constexpr (ErasedFunction<F>) {
    return erased(function.any_forward(std::move(value.values.front())));
  } else {
    return invoke_callable(function, std::forward<Value>(value));
  }
}

// The type of the value passed between the functions.
template <class F, class Input>
struct TravellingValue {
  static_assert(
      OneValueFunction<F, Input>,
      "checkpoint_sequential: an element of the list can neither be called with the input "
      "nor has a forward() that takes it; for a torch::nn::ModuleList name the types of "
      "its elements: checkpoint_sequential<Block>(list, segments, input)");
  using type = std::decay_t<decltype(apply_function(std::declval<F&>(), std::declval<Input>()))>;
};
template <ErasedFunction F, class Input>
struct TravellingValue<F, Input> {
  using type = decltype(erased(std::declval<F&>().any_forward(std::declval<Input>())));
};

template <class Value>
struct IsErasedValues : std::false_type {};
template <class Any>
struct IsErasedValues<ErasedValues<Any>> : std::true_type {
  using AnyType = Any;
};

template <class Value, class Input>
Value to_travelling_value(Input&& input) {
  if constexpr (IsErasedValues<Value>::value) {
    return erased(typename IsErasedValues<Value>::AnyType(std::forward<Input>(input)));
  } else {
    static_assert(std::is_constructible_v<Value, Input>,
                  "checkpoint_sequential: the input must have the type that the functions return, "
                  "or convert to it");
    return Value(std::forward<Input>(input));
  }
}

template <class Value>
auto to_result(Value value) {
  if constexpr (IsErasedValues<Value>::value) {
    return value.values.front().template get<at::Tensor>();
  } else {
    return value;
  }
}

// Runs its functions one after the other, each on the result of the one before. Owns copies of
// them.
template <class F>
class FunctionSegment {
 public:
  explicit FunctionSegment(std::vector<F> functions) : functions_(std::move(functions)) {}

  template <class Value>
  Value operator()(Value value) {
    for (F& function : functions_) {
      value = apply_function(function, std::move(value));
    }
    return value;
  }

 private:
  std::vector<F> functions_;
};

template <class T>
concept IterableList = requires(const T& list) {
  std::begin(list);
  std::end(list);
};

// A module holder of a list, torch::nn::Sequential.
template <class T>
concept ListHolder = requires(const T& holder) {
  holder.ptr()->begin();
  holder.ptr()->end();
};

template <class T>
concept FunctionList = IterableList<T> || ListHolder<T>;

template <FunctionList List>
auto copy_functions(const List& list) {
  if constexpr (ListHolder<List>) {
    const auto& elements = *list.ptr();
    return copy_functions(elements);
  } else {
    using Element = std::decay_t<decltype(*std::begin(list))>;
    return std::vector<Element>(std::begin(list), std::end(list));
  }
}

// Moves the functions of [first, last) into a vector of their own.
template <class Iterator>
auto take_functions(Iterator first, Iterator last) {
  using Function = typename std::iterator_traits<Iterator>::value_type;
  return std::vector<Function>(std::make_move_iterator(first), std::make_move_iterator(last));
}

// `BlockImpl` of either `Block` or `BlockImpl`.
template <class M>
struct ModuleImplementation {
  using type = M;
};
template <class M>
requires requires { typename M::ContainedType; }
struct ModuleImplementation<M> {
  using type = typename M::ContainedType;
};
template <class M>
using ModuleImplementationT = typename ModuleImplementation<M>::type;

// Returns an empty function if `module` is not an `Impl`.
template <class Value, class Impl, class Module>
std::function<Value(Value)> function_of_module(const std::shared_ptr<Module>& module) {
  auto implementation = std::dynamic_pointer_cast<Impl>(module);
  if (implementation == nullptr) {
    return {};
  }
  return [implementation = std::move(implementation)](Value value) -> Value {
    return implementation->forward(std::move(value));
  };
}

template <class... Impls>
std::string type_names() {
  std::string names;
  ((names += (names.empty() ? "" : ", ") + c10::demangle(typeid(Impls).name())), ...);
  return names;
}

// Returns the functions of modules that are known by their base class only. Throws
// std::invalid_argument if a module has none of the types.
template <class Value, class... Impls, FunctionList List>
std::vector<std::function<Value(Value)>> functions_of_modules(const List& list) {
  const auto modules = copy_functions(list);
  std::vector<std::function<Value(Value)>> functions;
  functions.reserve(modules.size());
  for (const auto& module : modules) {
    std::function<Value(Value)> function;
    static_cast<void>(((function = function_of_module<Value, Impls>(module)) || ...));
    if (!function) {
      std::ostringstream message;
      message << "[engine.checkpoint_sequential] element " << functions.size()
              << " of the list is of none of the types that the call names; received a "
              << module->name() << ", expected " << type_names<Impls...>()
              << "; add its type: checkpoint_sequential<Block, OtherBlock>(list, segments, input)";
      throw std::invalid_argument(message.str());
    }
    functions.push_back(std::move(function));
  }
  return functions;
}

// Throws std::invalid_argument unless 1 <= segments <= functions.
REPRISE_API void check_segments(std::int64_t segments, std::size_t functions);

// Returns "name[index]", or an empty string for an empty name.
REPRISE_API std::string segment_name(const std::string& name, std::int64_t index);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_FUNCTION_LIST_H_
