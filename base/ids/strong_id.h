// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Numbers of things that are counted from 0, one type per kind of thing, and vectors that accept
// only the numbers of their elements.
#ifndef REPRISE_BASE_IDS_STRONG_ID_H_
#define REPRISE_BASE_IDS_STRONG_ID_H_

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

namespace reprise::base_internal {

// Converts to "none" of each kind.
struct NoId {
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator std::uint32_t() const noexcept { return 0xffffffff; }
};
inline constexpr NoId kNoId{};

// `Tag` is an incomplete class that names the kind. A default-constructed id is none.
template <class Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr StrongId(NoId /*none*/) noexcept {}
  template <std::integral Number>
  constexpr explicit StrongId(Number number) noexcept
      : number_(static_cast<std::uint32_t>(number)) {}

  constexpr std::uint32_t number() const noexcept { return number_; }
  constexpr StrongId& operator++() noexcept {
    ++number_;
    return *this;
  }

  friend constexpr bool operator==(const StrongId&, const StrongId&) = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison's 0 for a pointer
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
  friend constexpr bool operator==(const StrongId& id, NoId /*none*/) noexcept {
    return id.number_ == kNoId;
  }
  template <class H>
  friend H AbslHashValue(H hash, const StrongId& id) {  // NOLINT(readability-identifier-naming)
    return H::combine(std::move(hash), id.number_);
  }
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) {
    return out << id.number_;
  }

 private:
  std::uint32_t number_ = kNoId;
};

// The numbers of the elements of a vector, for a range-based loop.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    explicit Iterator(Id id) : id_(id) {}
    Id operator*() const { return id_; }
    Iterator& operator++() {
      ++id_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    Id id_;
  };

  explicit IdRange(std::size_t size) : size_(size) {}
  Iterator begin() const { return Iterator(Id(0)); }
  Iterator end() const { return Iterator(Id(size_)); }

 private:
  std::size_t size_;
};

// A vector whose elements are numbered by `Id`.
template <class Id, class T, class Vector = std::vector<T>>
class IdVector : private Vector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t size, const T& value = T()) : Vector(size, value) {}

  decltype(auto) operator[](Id id) { return Vector::operator[](id.number()); }
  decltype(auto) operator[](Id id) const { return Vector::operator[](id.number()); }

  IdRange<Id> ids() const { return IdRange<Id>(size()); }
  bool contains(Id id) const { return id.number() < size(); }
  Id last_id() const { return Id(size() - 1); }
  Id next_id() const { return Id(size()); }  // of the element that is appended next
  // Returns the element, after appending default elements up to it.
  decltype(auto) grow_to(Id id) {
    while (!contains(id)) {
      this->emplace_back();
    }
    return (*this)[id];
  }

  using Vector::assign;
  using Vector::back;
  using Vector::begin;
  using Vector::capacity;
  using Vector::clear;
  using Vector::emplace_back;
  using Vector::empty;
  using Vector::end;
  using Vector::push_back;
  using Vector::rbegin;
  using Vector::rend;
  using Vector::reserve;
  using Vector::resize;
  using Vector::shrink_to_fit;
  using Vector::size;
};

}  // namespace reprise::base_internal

#endif  // REPRISE_BASE_IDS_STRONG_ID_H_
