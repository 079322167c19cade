#include "apps/classify/output.hpp"

#include <iostream>

#include <nlohmann/json.hpp>

#include "apps/common/text.hpp"
#include "cistern/base/units.hpp"

namespace cistern::classify {
namespace {

using nlohmann::json;

constexpr const char* kPeriod = "batch";

// A name need not be UTF-8; JSON must.
std::string line_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace

void Output::image(const std::string& name, const std::vector<Guess>& guesses) {
  if (form_ == Form::kJson) {
    json top = json::array();
    for (const Guess& guess : guesses)
      top.push_back({{"index", guess.index}, {"label", guess.label}, {"probability", guess.probability}});
    out_ << line_of({{"image", name}, {"top", top}}) << std::flush;
    return;
  }
  out_ << name << '\n';
  for (const Guess& guess : guesses)
    out_ << apps::text("  %7.4f  ", guess.probability) << guess.label << '\n';
  out_ << std::flush;
}

void Output::broken(const std::string& name, const std::string& what) {
  std::cerr << "cistern-classify: " << what << '\n';
  if (form_ == Form::kJson) out_ << line_of({{"image", name}, {"error", what}}) << std::flush;
}

void Output::summary(const Summary& summary) {
  if (form_ == Form::kJson) {
    out_ << line_of({{"summary",
                      {{"weights", summary.weights},
                       {"images", summary.images},
                       {"broken", summary.broken},
                       {"seconds", summary.seconds},
                       {"images_per_second", summary.images_per_second()},
                       {"strategy", summary.memory.strategy},
                       {"device", summary.memory.device},
                       {"memory", apps::memory_to_json(summary.memory, kPeriod)}}}})
         << std::flush;
    return;
  }
  out_ << apps::text("\n%lld image%s in %.2f s, %.1f images/s", static_cast<long long>(summary.images),
                     summary.images == 1 ? "" : "s", summary.seconds, summary.images_per_second());
  if (summary.broken > 0) out_ << ", " << summary.broken << " broken";
  out_ << ", by " << summary.weights << " on " << summary.memory.device << '\n';
  apps::print_memory(out_, summary.memory, kPeriod);
  out_ << "peak resident memory of the process: " << format_bytes(summary.memory.peak_rss_bytes) << std::endl;
}

}  // namespace cistern::classify
