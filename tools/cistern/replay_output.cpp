#include "replay_output.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <ostream>

#include <nlohmann/json.hpp>

#include "cistern/base/units.hpp"
#include "cistern/core/stats.hpp"

namespace cistern::cli {

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

void write_rows(const std::vector<Row>& rows, std::size_t text_columns, std::ostream& out) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - row[column].size(), ' ');
      if (column > 0) line += "  ";
      line += column < text_columns ? row[column] + padding : padding + row[column];
    }
    out << line << '\n';
  }
}

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ReplayRun& run) {
  const ReplayResult& result = run.result;
  const SourceCalls& calls = result.stats.source_calls;
  const bool preallocates = run.options.strategy == Strategy::kPreallocate;
  const bool limited = result.stats.limit_bytes != std::numeric_limits<std::uint64_t>::max();
  std::array<char, 20> hash{};
  std::snprintf(hash.data(), hash.size(), "%016llx", static_cast<unsigned long long>(result.placement_hash));
  Json served = Json::object();
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    served[rung_name(static_cast<Rung>(rung))] = result.stats.served[rung];
  }
  Json json;
  json["strategy"] = strategy_name(run.options.strategy);
  json["source"] = run.source.name;
  json["granule_bytes"] = run.source.granule_bytes;
  json["capacity_bytes"] = run.source.capacity_bytes;
  json["limit_bytes"] = limited ? Json(result.stats.limit_bytes) : Json(nullptr);
  json["preallocate_bytes"] =
      preallocates ? Json(run.options.preallocate.resolve(run.source.capacity_bytes)) : Json(nullptr);
  json["lower_bound_bytes"] = result.lower_bound_bytes;
  json["peak_reserved_bytes"] = result.peak_reserved_bytes;
  json["ratio"] = result.ratio;
  json["source_calls"] = calls.total();
  json["source_calls_by_verb"] = {{"reserve", calls.reserve},
                                  {"commit", calls.commit},
                                  {"decommit", calls.decommit},
                                  {"unreserve", calls.unreserve},
                                  {"refused", calls.refused}};
  json["remapped_bytes"] = calls.remapped_bytes;
  json["ns_per_operation"] = result.ns_per_operation;
  json["warm_ns_per_operation"] = result.warm_ns_per_operation;
  json["served"] = served;
  json["failures"] = result.failure_count;
  json["placement_hash"] = hash.data();
  return json;
}

Json to_json(const ReplayReport& report) {
  Json runs = Json::array();
  for (const ReplayRun& run : report.runs) runs.push_back(to_json(run));
  return {{"trace", report.path}, {"operations", report.operation_count}, {"runs", runs}};
}

Row to_row(const std::string& trace, const ReplayRun& run) {
  const ReplayResult& result = run.result;
  return {trace,
          strategy_name(run.options.strategy),
          run.source.name,
          format_bytes(result.lower_bound_bytes),
          format_bytes(result.peak_reserved_bytes),
          fixed(result.ratio, 4),
          std::to_string(result.stats.source_calls.total()),
          format_bytes(result.stats.source_calls.remapped_bytes),
          fixed(result.ns_per_operation, 1),
          fixed(result.warm_ns_per_operation, 1),
          std::to_string(result.failure_count)};
}

}  // namespace

void write_table(const std::vector<ReplayReport>& reports, std::ostream& out) {
  constexpr std::size_t kTextColumns = 3;  // the rest are numbers, to the right
  std::vector<Row> rows{{"trace", "strategy", "source", "lower bound", "peak reserved", "ratio",
                         "source calls", "remapped", "ns/op", "warm", "failures"}};
  for (const ReplayReport& report : reports) {
    for (const ReplayRun& run : report.runs) rows.push_back(to_row(report.trace, run));
  }
  write_rows(rows, kTextColumns, out);
}

void write_json(const std::vector<ReplayReport>& reports, std::ostream& out) {
  Json json = Json::array();
  for (const ReplayReport& report : reports) json.push_back(to_json(report));
  if (json.size() == 1) json = Json(json.front());
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace cistern::cli
