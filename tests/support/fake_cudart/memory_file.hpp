// Memory of a device lies in one memory file, so that it can be mapped at several places and by other
// processes. Stretches of it are never reused: a file grows without end, sparsely.
#pragma once

#include <optional>

#include "state.hpp"

namespace fake_cudart {

/// Where the stretches end, and what is kept of each may begin.
inline constexpr std::uint64_t kStretchesEnd = std::uint64_t{1} << 50;

/// A stretch of fresh zeros that begins at a multiple of a granule; none if the host refuses.
std::optional<std::uint64_t> take_stretch(Device& device, std::size_t bytes);
/// Gives the stretch's pages back to the host.
void give_back_stretch(int file, std::uint64_t offset, std::size_t bytes);

}  // namespace fake_cudart
