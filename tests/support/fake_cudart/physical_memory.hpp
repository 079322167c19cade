// Physical memory that cuMemCreate gives. A handle that is exported is a file descriptor of the device's
// memory file; its position says which stretch, so another process with this runtime can import it.
#pragma once

#include "state.hpp"

namespace fake_cudart {

CUresult create_physical(Runtime& state, std::uint64_t* id, std::size_t bytes,
                         const CUmemAllocationProp& properties);
/// Gives the memory back once neither handles nor mappings refer to it.
void drop_unreferenced(Runtime& state, std::uint64_t id);
/// A descriptor that the caller owns.
CUresult export_physical(const Physical& physical, int* descriptor);
/// Finds the memory if it is this process', else adopts it.
CUresult import_physical(Runtime& state, std::uint64_t* id, int descriptor);

}  // namespace fake_cudart
