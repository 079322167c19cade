#include "cistern/observe/plan_file.hpp"

#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "cistern/observe/files.hpp"

namespace cistern {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

class PlanReader {
 public:
  explicit PlanReader(const std::string& path) : path_(path) {}

  PlanFile read() {
    const Json json = parse();
    if (!json.is_object() || !json.contains("cistern_plan")) fail("is no plan: it has no \"cistern_plan\"");
    if (json["cistern_plan"] != kVersion) {
      fail("is a plan of version " + excerpt(json["cistern_plan"]) + "; this cistern reads version " +
           std::to_string(kVersion));
    }
    expect_fields(json, "the plan", {"cistern_plan", "lower_bound_bytes", "unit_bytes", "lanes"});
    PlanFile file;
    number(json["lower_bound_bytes"], "lower_bound_bytes", file.lower_bound_bytes);
    number(json["unit_bytes"], "unit_bytes", file.plan.unit_bytes);
    if (!json["lanes"].is_array()) fail("\"lanes\" is no list");
    for (const Json& lane : json["lanes"]) {
      file.plan.lanes.push_back(read_lane(lane, "lane " + std::to_string(file.plan.lanes.size())));
    }
    if (const auto wrong = what_is_wrong(file.plan)) fail(*wrong);
    return file;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw FileError(path_, what); }

  static std::string excerpt(const Json& json) {
    return json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40);
  }

  Json parse() const {
    InputFile input(path_);
    std::string text;
    for (;;) {
      constexpr std::size_t kChunk = std::size_t{1} << 16;
      const std::size_t before = text.size();
      text.resize(before + kChunk);
      const std::size_t bytes = input.read(text.data() + before, kChunk);
      text.resize(before + bytes);
      if (bytes < kChunk) break;
    }
    try {
      return Json::parse(text);
    } catch (const Json::parse_error& error) {
      fail("is no JSON from byte " + std::to_string(error.byte) + " on");
    }
  }

  void expect_fields(const Json& json, const std::string& where, std::initializer_list<std::string_view> names) const {
    if (!json.is_object()) fail(where + " is no object");
    for (const std::string_view name : names) {
      if (!json.contains(name)) fail(where + " has no \"" + std::string(name) + "\"");
    }
    if (json.size() != names.size()) {
      fail(where + " has " + std::to_string(json.size() - names.size()) + " unknown fields");
    }
  }

  template <class Number>
  void number(const Json& json, const std::string& where, Number& to) const {
    static_assert(std::is_unsigned_v<Number>);
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > std::numeric_limits<Number>::max()) {
      fail(where + " is " + excerpt(json) + ", not a whole number from 0 to " +
           std::to_string(std::numeric_limits<Number>::max()));
    }
    to = json.get<Number>();
  }

  PlanLane read_lane(const Json& json, const std::string& where) const {
    expect_fields(json, where, {"stream", "pool", "height_bytes", "repeat_from", "requests"});
    PlanLane lane;
    number(json["stream"], where + ": stream", lane.stream.value);
    number(json["pool"], where + ": pool", lane.pool.value);
    number(json["height_bytes"], where + ": height_bytes", lane.height_bytes);
    number(json["repeat_from"], where + ": repeat_from", lane.repeat_from);
    if (!json["requests"].is_array()) fail(where + ": \"requests\" is no list");
    lane.requests.reserve(json["requests"].size());
    for (const Json& request : json["requests"]) {
      const std::string name = where + ": request " + std::to_string(lane.requests.size());
      if (!request.is_array() || request.size() != 2) fail(name + " is no pair [bytes, offset]");
      number(request[0], name + ": bytes", lane.requests.emplace_back().bytes);
      number(request[1], name + ": offset", lane.requests.back().offset);
    }
    return lane;
  }

  const std::string path_;
};

}  // namespace

void write_plan(const std::string& path, const PlanFile& file) {
  OutputFile output(path);
  Json json = {{"cistern_plan", kVersion},
               {"lower_bound_bytes", file.lower_bound_bytes},
               {"unit_bytes", file.plan.unit_bytes},
               {"lanes", Json::array()}};
  for (const PlanLane& lane : file.plan.lanes) {
    Json requests = Json::array();
    for (const PlannedRequest& request : lane.requests) requests.push_back({request.bytes, request.offset});
    json["lanes"].push_back({{"stream", lane.stream.value},
                             {"pool", lane.pool.value},
                             {"height_bytes", lane.height_bytes},
                             {"repeat_from", lane.repeat_from},
                             {"requests", std::move(requests)}});
  }
  output.write(json.dump());
  output.write("\n");
  output.close();
}

PlanFile read_plan(const std::string& path) { return PlanReader(path).read(); }

Options with_plan(Options options) {
  if (options.strategy != Strategy::kPlan || options.plan != nullptr) return options;
  if (options.plan_file.empty()) throw std::invalid_argument("cistern: strategy plan needs a plan file");
  auto plan = std::make_shared<const Plan>(read_plan(options.plan_file).plan);
  if (plan->unit_bytes < options.least_block_bytes) {
    throw FileError(options.plan_file, "places blocks by " + std::to_string(plan->unit_bytes) +
                                           " bytes, and those of this device are multiples of " +
                                           std::to_string(options.least_block_bytes) +
                                           ": record the run on this device");
  }
  options.plan = std::move(plan);
  return options;
}

}  // namespace cistern
