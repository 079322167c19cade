// What the entries of all plugs do alike: parse, install, answer in one line.
#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>

#include "cistern/adapters/plugs.hpp"
#include "cistern/core/config.hpp"

namespace cistern {

/// The body of a PlugEntry: present() says whether the kind is served already, install(options) installs.
template <class Present, class Install>
PlugOutcome enter_plug(const Plug& plug, const char* configuration, char* error, std::size_t error_bytes,
                       Present present, Install install) {
  try {
    if (present()) {
      std::snprintf(error, error_bytes, "%s is served by cistern already", plug.device);
      return kPlugPresent;
    }
    if (const auto options = parse_config(configuration)) {
      install(*options);
      return kPlugInstalled;
    } else {
      std::snprintf(error, error_bytes, "%s", options.error().message.c_str());
    }
  } catch (const std::exception& exception) {
    std::snprintf(error, error_bytes, "%s", exception.what());
  }
  return kPlugFailed;
}

}  // namespace cistern
