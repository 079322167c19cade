// Exact search: a placement at most as high as a capacity, or the proof that there is none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cistern/planning/effort.hpp"

namespace cistern::planning {

struct Buffer;

enum class SearchEnd : std::uint8_t {
  kFound,       ///< The offsets hold.
  kImpossible,  ///< No placement is that low.
  kGaveUp,      ///< The effort was spent before either was known.
};

struct SearchResult {
  SearchEnd end = SearchEnd::kGaveUp;
  std::vector<std::uint64_t> offsets;  ///< When found: one a buffer, in the order of the buffers, no end above capacity.
};

/// Requires buffers as placement.hpp says. Cost: exponential at worst. Deterministic but for the deadline.
SearchResult search_exactly(std::span<const Buffer> buffers, std::uint64_t capacity, const Effort& effort);

}  // namespace cistern::planning
