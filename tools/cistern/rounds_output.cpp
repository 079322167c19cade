#include "rounds_output.hpp"

#include <ostream>

#include <nlohmann/json.hpp>

#include "cistern/base/units.hpp"
#include "replay_output.hpp"

namespace cistern::cli {
namespace {

using Json = nlohmann::ordered_json;

double ratio_of(const RoundsReport& report, const ReplayRound& round) {
  return static_cast<double>(round.peak_reserved_bytes) / static_cast<double>(report.lower_bound_bytes);
}

std::uint64_t mapped_granules(const RoundsReport& report, const ReplayRound& round) {
  return round.mapped_bytes / report.source.granule_bytes;
}

double driver_ms(const RoundsReport& report, const ReplayRound& round) {
  return kMapMicroseconds * static_cast<double>(mapped_granules(report, round)) / 1000.0;
}

Json to_json(const RoundsReport& report) {
  Json rounds = Json::array();
  for (const ReplayRound& round : report.rounds) {
    rounds.push_back({{"peak_reserved_bytes", round.peak_reserved_bytes},
                      {"ratio", ratio_of(report, round)},
                      {"source_calls", round.source_calls.total()},
                      {"remapped_bytes", round.source_calls.remapped_bytes},
                      {"mapped_granules", mapped_granules(report, round)},
                      {"modelled_driver_ms", driver_ms(report, round)},
                      {"waits", round.wait_count},
                      {"failures", round.failure_count}});
  }
  return {{"trace", report.path},
          {"operations", report.operation_count},
          {"strategy", strategy_name(report.strategy)},
          {"source", report.source.name},
          {"granule_bytes", report.source.granule_bytes},
          {"lower_bound_bytes", report.lower_bound_bytes},
          {"rounds", rounds}};
}

}  // namespace

void write_rounds_table(const std::vector<RoundsReport>& reports, std::ostream& out) {
  constexpr std::size_t kTextColumns = 3;
  std::vector<Row> rows{{"trace", "strategy", "source", "round", "peak reserved", "ratio", "source calls", "remapped",
                         "granules mapped", "driver ms", "waits", "failures"}};
  for (const RoundsReport& report : reports) {
    int number = 0;
    for (const ReplayRound& round : report.rounds) {
      rows.push_back({report.trace, strategy_name(report.strategy), report.source.name, std::to_string(++number),
                      format_bytes(round.peak_reserved_bytes), fixed(ratio_of(report, round), 4),
                      std::to_string(round.source_calls.total()), format_bytes(round.source_calls.remapped_bytes),
                      std::to_string(mapped_granules(report, round)), fixed(driver_ms(report, round), 1),
                      std::to_string(round.wait_count), std::to_string(round.failure_count)});
    }
  }
  write_rows(rows, kTextColumns, out);
}

void write_rounds_json(const std::vector<RoundsReport>& reports, std::ostream& out) {
  Json json = Json::array();
  for (const RoundsReport& report : reports) json.push_back(to_json(report));
  if (json.size() == 1) json = Json(json.front());
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace cistern::cli
