#include "cistern/core/budget.hpp"

#include <algorithm>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"

namespace cistern {

bool Budget::claim(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes > limit_ - claimed_ && !CISTERN_MUTANT(I11_limit_not_asked)) return false;
  const bool ask_parent = parent_ != nullptr && !CISTERN_MUTANT(I11_parent_not_asked);
  if (ask_parent && !parent_->claim(bytes)) return false;
  claimed_ += bytes;
  return true;
}

void Budget::refund(std::size_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    CISTERN_ASSERT(bytes <= claimed_);
    claimed_ -= bytes;
  }
  if (parent_ != nullptr) parent_->refund(bytes);
}

bool Budget::set_limit(std::size_t limit_bytes) {
  const std::scoped_lock lock(mutex_);
  if (claimed_ > limit_bytes && !CISTERN_MUTANT(I11_limit_below_use)) return false;
  limit_ = limit_bytes;
  return true;
}

std::size_t Budget::limit() const {
  const std::scoped_lock lock(mutex_);
  return limit_;
}

std::size_t Budget::claimed() const {
  const std::scoped_lock lock(mutex_);
  return claimed_;
}

std::size_t Budget::headroom() const {
  const std::scoped_lock lock(mutex_);
  const std::size_t own = limit_ - claimed_;
  return parent_ == nullptr ? own : std::min(own, parent_->headroom());
}

std::size_t Budget::tightest_limit() const {
  const std::scoped_lock lock(mutex_);
  if (parent_ == nullptr || limit_ - claimed_ <= parent_->headroom()) return limit_;
  return parent_->tightest_limit();
}

}  // namespace cistern
