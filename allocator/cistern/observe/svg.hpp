// The heap over time as a picture: addresses upwards, operations to the right, one rectangle a block.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cistern/core/event.hpp"

namespace cistern {

/// One drawing area; several stand side by side on one scale.
struct HeapPanel {
  std::string title;
  std::vector<Event> events;  ///< Of one recording, in the order of time.
};

/// An SVG document of a fixed height. Only address space that ever held memory is drawn, packed from the
/// bottom. Blocks too thin to tell apart are merged, and beyond `most_rectangles` in all panels together the
/// smallest are left out, so that the text stays below about 40 bytes each.
std::string draw_heap(const std::string& title, const std::vector<HeapPanel>& panels,
                      std::size_t most_rectangles = 3000);

}  // namespace cistern
