#include "apps/common/memory_report.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/table.hpp"
#include "cistern/base/units.hpp"

namespace cistern::apps {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, std::uint64_t MemoryResult::*> kCounts[] = {
    {"requested_bytes", &MemoryResult::requested_bytes},
    {"peak_requested_bytes", &MemoryResult::peak_requested_bytes},
    {"allocated_bytes", &MemoryResult::allocated_bytes},
    {"peak_allocated_bytes", &MemoryResult::peak_allocated_bytes},
    {"reserved_bytes", &MemoryResult::reserved_bytes},
    {"peak_reserved_bytes", &MemoryResult::peak_reserved_bytes},
    {"allocations", &MemoryResult::allocations},
    {"source_calls", &MemoryResult::source_calls},
    {"source_calls_after_first_", &MemoryResult::source_calls_after_first_period},  // and then the period
};
constexpr const char* kName = "name";
constexpr const char* kLimit = "limit_bytes";
constexpr const char* kMemories = "memories";
constexpr const char* kPeakRss = "peak_rss_bytes";
constexpr const char* kServed = "served_by_rung";
constexpr const char* kTimeShare = "allocator_time_share";

std::string full_name(std::string name, const std::string& period) {
  return name.ends_with('_') ? name + period : name;
}

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

template <class Value>
std::optional<Value> from_json(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<Value>();
}

json figures_to_json(const MemoryResult& memory, const std::string& period) {
  json object{{kName, memory.name}, {kLimit, or_null(memory.limit_bytes)}};
  for (const auto& [name, count] : kCounts) object[full_name(name, period)] = memory.*count;
  return object;
}

MemoryResult figures_from_json(const json& object, const std::string& period) {
  MemoryResult memory;
  object.at(kName).get_to(memory.name);
  memory.limit_bytes = from_json<std::uint64_t>(object.at(kLimit));
  for (const auto& [name, count] : kCounts) object.at(full_name(name, period)).get_to(memory.*count);
  return memory;
}

// Two columns a memory: what is there now, and the most there was.
void print_table(std::ostream& out, const std::vector<MemoryResult>& memories) {
  std::vector<std::string> header{""}, requested{"requested"}, allocated{"allocated"}, reserved{"reserved"},
      limit{"limit"}, calls{"source calls"};
  const auto add = [](std::vector<std::string>& row, const std::string& now, const std::string& peak) {
    row.insert(row.end(), {now, peak});
  };
  for (const MemoryResult& memory : memories) {
    add(header, memory.name + " now", "peak");
    add(requested, format_bytes(memory.requested_bytes), format_bytes(memory.peak_requested_bytes));
    add(allocated, format_bytes(memory.allocated_bytes), format_bytes(memory.peak_allocated_bytes));
    add(reserved, format_bytes(memory.reserved_bytes), format_bytes(memory.peak_reserved_bytes));
    add(limit, memory.limit_bytes ? format_bytes(*memory.limit_bytes) : "none", "");
    add(calls, std::to_string(memory.source_calls), "");
  }
  Table table(header);
  for (const auto& row : {requested, allocated, reserved, limit, calls}) table.add_row(row);
  table.print(out);
}

}  // namespace

void print_memory(std::ostream& out, const MemoryReport& report, const std::string& period) {
  out << "\nMemory under strategy " << report.strategy << '\n';
  if (report.memories.empty()) {
    out << "torch's own allocator keeps no statistics of the CPU\n";
    return;
  }
  print_table(out, report.memories);
  const MemoryResult& computed_on = report.memories.front();
  out << "source calls of " << computed_on.name << " after the first " << period << ": "
      << computed_on.source_calls_after_first_period << "\nallocations: " << computed_on.allocations;
  if (report.served_by_rung) {
    out << ", served by";
    for (const auto& [rung, count] : *report.served_by_rung) out << ' ' << rung << ' ' << count;
  }
  out << '\n';
}

json memory_to_json(const MemoryReport& report, const std::string& period) {
  json object{{kPeakRss, report.peak_rss_bytes}, {kMemories, json::array()}};
  for (const auto& [name, count] : kCounts) {
    object[full_name(name, period)] = report.memories.empty() ? json() : json(report.memories.front().*count);
  }
  object[kServed] = or_null(report.served_by_rung);
  object[kTimeShare] = or_null(report.time_share);
  for (const MemoryResult& one : report.memories) object[kMemories].push_back(figures_to_json(one, period));
  return object;
}

MemoryReport memory_from_json(const json& object, const std::string& period) {
  MemoryReport report;
  object.at(kPeakRss).get_to(report.peak_rss_bytes);
  for (const json& one : object.at(kMemories)) report.memories.push_back(figures_from_json(one, period));
  report.served_by_rung = from_json<std::map<std::string, std::uint64_t>>(object.at(kServed));
  report.time_share = from_json<double>(object.at(kTimeShare));
  return report;
}

}  // namespace cistern::apps
