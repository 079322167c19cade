// A limit on committed bytes, and the chain of limits above it.
#pragma once

#include <cstddef>
#include <limits>
#include <mutex>

namespace cistern {

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// Bytes are claimed before a source call and refunded when it fails or after memory went back, so that what is
/// committed never exceeds any limit of the chain, at no instant (promise I11).
/// Threads: any. Locks are taken from child to parent.
class Budget {
 public:
  explicit Budget(std::size_t limit_bytes = kNoLimit, Budget* parent = nullptr) noexcept
      : limit_(limit_bytes), parent_(parent) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Claims from the whole chain, or from none of it.
  bool claim(std::size_t bytes);
  void refund(std::size_t bytes);

  /// False, and no change, if more is claimed already.
  bool set_limit(std::size_t limit_bytes);

  std::size_t limit() const;
  std::size_t claimed() const;
  /// What a claim could get: the least over the chain.
  std::size_t headroom() const;
  /// The limit of the chain that leaves the least headroom.
  std::size_t tightest_limit() const;

 private:
  mutable std::mutex mutex_;
  std::size_t limit_;
  std::size_t claimed_ = 0;
  Budget* const parent_;
};

}  // namespace cistern
