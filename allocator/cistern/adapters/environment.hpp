// CISTERN_CONF, read in one way by everything that installs an allocator.
#pragma once

#include <cstdlib>
#include <stdexcept>

#include "cistern/core/config.hpp"

namespace cistern {

/// What CISTERN_CONF says on top of `base`. Fails: throws std::invalid_argument naming the key and the position.
inline Options with_cistern_conf(const Options& base) {
  const char* text = std::getenv("CISTERN_CONF");
  if (text == nullptr) return base;
  const auto parsed = parse_config(text, base);
  if (!parsed) throw std::invalid_argument("CISTERN_CONF: " + parsed.error().message);
  return *parsed;
}

}  // namespace cistern
