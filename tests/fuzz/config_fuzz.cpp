// CISTERN_CONF from anybody: either options, or an error that names its place.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cistern/core/config.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cistern;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto options = parse_config(text);
  if (options) {
    require(options->remap_slack >= 0.0 && options->remap_slack <= 1.0);
    require(options->preallocate.share >= 0.0 && options->preallocate.share <= 1.0);
  } else {
    require(!options.error().message.empty());
    require(options.error().position <= size);
  }
  const auto amount = parse_amount(text);
  require(amount ? amount->bytes <= ~std::size_t{0} >> 1 : !amount.error().empty());
  if (amount && amount->share == 0.0) require(!format_bytes(amount->bytes).empty());
  return 0;
}
