// A value or the reason why there is none. Running out is a value in cistern, never an exception.
#pragma once

#include <utility>
#include <variant>

#include "cistern/base/check.hpp"

namespace cistern {

template <class Value, class Error>
class Result {
 public:
  Result(Value value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }

  /// Requires a value.
  const Value& value() const {
    CISTERN_ASSERT(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  Value& value() {
    CISTERN_ASSERT(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  const Value& operator*() const { return value(); }
  const Value* operator->() const { return &value(); }

  /// Requires an error.
  const Error& error() const {
    CISTERN_ASSERT(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<Value, Error> state_;
};

}  // namespace cistern
