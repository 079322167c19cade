// The card of a weights file, as JSON text.
#pragma once

#include <string>

#include "models/weights_file.hpp"

namespace cistern::models {

std::string card_text(const ModelCard& card);

/// Keys it does not know are ignored. Fails: throws std::invalid_argument with one sentence that names the
/// key that is missing or has a value it cannot have.
ModelCard parse_card(const std::string& text);

}  // namespace cistern::models
