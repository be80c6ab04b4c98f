// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Finds the tensors and generators inside a value: optional, pair, tuple, variant, containers,
// arrays, and aggregates of up to 16 members, to any depth. Skips other types, non-owning types
// (views, smart pointers, c10::List), and aggregates of more than 64 members, where each element of
// an array counts as one.
#ifndef REPRISE_ENGINE_CALLABLE_TENSOR_VISITOR_H_
#define REPRISE_ENGINE_CALLABLE_TENSOR_VISITOR_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>  // std::ranges::enable_view, a part of <ranges> that compiles faster
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace reprise::engine_internal {

template <class T, class Visitor>
void visit_tensors(T& value, Visitor&& visitor);

struct AnyVisitor {
  void operator()(auto& member) const;
};

template <class T>
concept HasOwnVisit = requires(T& value) {
  reprise_visit_tensors(value, AnyVisitor{});
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
inline constexpr bool kIsVariant = false;
template <class... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

// A container that owns its elements, and through which they can be modified.
template <class T>
concept OwningRange = !std::ranges::enable_view<T> && requires(T & range) {
  requires std::is_lvalue_reference_v<decltype(*std::begin(range))>;
  requires !std::is_arithmetic_v<std::remove_cvref_t<decltype(*std::begin(range))>>;
  std::end(range);
};

// Converts to a member of any type, to count members.
struct AnyMember {
  template <class T>
  operator T() const;
};

inline constexpr std::size_t kMaxMembers = 16;
// Values that they are initialised from. An array takes one for each of its elements.
inline constexpr std::size_t kMaxValues = 64;

template <class T, std::size_t... I>
consteval bool is_made_of(std::index_sequence<I...> /*values*/) {
  return requires { T{(static_cast<void>(I), AnyMember{})...}; };
}

// Members of at least a byte, except for a few unusual ones.
template <class T, std::size_t N = std::clamp(sizeof(T), kMaxMembers + 1, kMaxValues + 1)>
consteval std::size_t value_count() {
  if constexpr (N == 0) {
    return 0;
  } else if constexpr (is_made_of<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return value_count<T, N - 1>();
  }
}

// Whether the values of `I` may be in braces between `Before` and `After`.
template <class T, std::size_t... Before, std::size_t... I, std::size_t... After>
consteval bool is_made_of(std::index_sequence<Before...> /*before*/,
                          std::index_sequence<I...> /*in braces*/,
                          std::index_sequence<After...> /*after*/) {
  return requires {
    T{(static_cast<void>(Before), AnyMember{})...,
      {(static_cast<void>(I), AnyMember{})...},
      (static_cast<void>(After), AnyMember{})...};
  };
}

template <class T, std::size_t Before, std::size_t N, std::size_t After>
inline constexpr bool kHasBraces = is_made_of<T>(std::make_index_sequence<Before>{},
                                                 std::make_index_sequence<N>{},
                                                 std::make_index_sequence<After>{});

// How many of `Total` values the member takes that takes the one at `First`. Braces around the N
// values of an array leave room for no further value; around those of a class, which is made of one
// value otherwise, they leave some.
template <class T, std::size_t Total, std::size_t First, std::size_t N>
consteval std::size_t values_of_member() {
  if constexpr (N <= 1) {
    return 1;
  } else if constexpr (kHasBraces<T, First, N, Total - First - N> &&
                       !kHasBraces<T, First, N, Total - First - N + 1>) {
    return N;
  } else {
    return values_of_member<T, Total, First, N - 1>();
  }
}

template <class T, std::size_t Total, std::size_t First = 0>
consteval std::size_t members_from() {
  if constexpr (First >= Total) {
    return 0;
  } else {
    return 1 + members_from<T, Total, First + values_of_member<T, Total, First, Total - First>()>();
  }
}

// More than kMaxMembers if there are too many to count.
template <class T>
consteval std::size_t member_count() {
  constexpr std::size_t kValues = value_count<T>();
  if constexpr (kValues > kMaxValues) {
    return kMaxMembers + 1;
  } else {
    return members_from<T, kValues>();
  }
}

template <class T>
concept PlainAggregate = std::is_aggregate_v<T> && std::is_class_v<T> && !TupleLike<T>;

// NOLINTBEGIN(bugprone-branch-clone): structured bindings cannot take a number of names.
template <class T, class Apply>
void with_members(T& value, Apply&& apply) {
  constexpr std::size_t kCount = member_count<T>();
  if constexpr (kCount == 1) {
    auto& [a] = value;
    apply(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = value;
    apply(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = value;
    apply(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = value;
    apply(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = value;
    apply(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = value;
    apply(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    apply(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    apply(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    apply(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kCount == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    apply(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (kCount == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    apply(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (kCount == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    apply(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (kCount == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    apply(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (kCount == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    apply(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (kCount == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value;
    apply(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (kCount == 16) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value;
    apply(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}
// NOLINTEND(bugprone-branch-clone)

// Calls `visitor` with an lvalue of each at::Tensor and at::Generator in `value`, in a fixed order.
template <class T, class Visitor>
void visit_tensors(T& value, Visitor&& visitor) {
  const auto visit_all = [&visitor](auto&... member) { (visit_tensors(member, visitor), ...); };
  if constexpr (std::is_const_v<T>) {
    // A map's key or a set's element: it cannot be replaced later.
  } else if constexpr (std::same_as<T, at::Tensor> || std::same_as<T, at::Generator>) {
    visitor(value);
  } else if constexpr (HasOwnVisit<T>) {
    reprise_visit_tensors(value, [&visitor](auto& member) { visit_tensors(member, visitor); });
  } else if constexpr (kIsOptional<T>) {
    if (value) {
      visit_tensors(*value, visitor);
    }
  } else if constexpr (kIsVariant<T>) {
    std::visit(visit_all, value);
  } else if constexpr (OwningRange<T>) {
    for (auto& element : value) {
      visit_tensors(element, visitor);
    }
  } else if constexpr (TupleLike<T>) {
    std::apply(visit_all, value);
  } else if constexpr (PlainAggregate<T>) {
    with_members(value, visit_all);
  }
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_TENSOR_VISITOR_H_
