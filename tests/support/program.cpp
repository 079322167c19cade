#include "support/program.hpp"

#include <sstream>

namespace cistern::support {
namespace {

struct SetupField {
  const char* name;
  std::size_t Setup::*member;
};

constexpr SetupField kSetupFields[] = {
    {"strategy", &Setup::strategy},
    {"trim", &Setup::trim},
    {"high_water", &Setup::high_water},
    {"limit", &Setup::limit},
    {"preallocate", &Setup::preallocate},
    {"headroom", &Setup::headroom},
    {"slack_percent", &Setup::slack_percent},
    {"least_block", &Setup::least_block},
    {"small_block", &Setup::small_block},
    {"whole_only", &Setup::whole_only},
    {"granule", &Setup::granule},
    {"capacity", &Setup::capacity},
    {"range_step", &Setup::range_step},
    {"fences", &Setup::fences},
    {"streams", &Setup::streams},
    {"pools", &Setup::pools},
    {"pool_limit", &Setup::pool_limit},
};

struct OpShape {
  const char* name;
  std::size_t operand_count;
};

constexpr OpShape kOps[kOpCount] = {
    {"allocate", 4}, {"free", 1},    {"bad_free", 2}, {"record_stream", 2}, {"queue", 1},
    {"complete", 2}, {"trim", 1},    {"tick", 0},     {"set_limit", 2},     {"clear_limit", 1},
    {"refuse", 1},   {"capture", 1}, {"reset", 1},
};

constexpr std::uint64_t Step::*kOperands[] = {&Step::a, &Step::b, &Step::c, &Step::d};

bool parse_setup(std::istringstream& words, Setup& setup) {
  std::string word;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = word.substr(0, equals);
    bool known = false;
    for (const SetupField& field : kSetupFields) {
      if (name != field.name) continue;
      std::istringstream number(word.substr(equals + 1));
      known = static_cast<bool>(number >> setup.*field.member);
    }
    if (!known) return false;
  }
  return true;
}

bool parse_step(const std::string& name, std::istringstream& words, Program& program) {
  for (std::size_t op = 0; op < kOpCount; ++op) {
    if (name != kOps[op].name) continue;
    Step step;
    step.op = static_cast<Op>(op);
    for (std::size_t i = 0; i < kOps[op].operand_count; ++i) {
      if (!(words >> step.*kOperands[i])) return false;
    }
    program.steps.push_back(step);
    return true;
  }
  return false;
}

}  // namespace

Options Setup::options() const {
  Options options;
  options.strategy = static_cast<Strategy>(strategy);
  options.trim = static_cast<TrimMode>(trim);
  options.high_water_bytes = high_water;
  if (limit != 0) options.limit = Amount{limit, 0.0};
  options.preallocate = Amount{preallocate, 0.0};
  options.headroom_bytes = headroom;
  options.remap_slack = static_cast<double>(slack_percent) / 100.0;
  options.least_block_bytes = least_block;
  options.small_block_bytes = small_block;
  return options;
}

std::string to_text(const Program& program) {
  const Setup defaults;
  std::ostringstream text;
  text << "setup";
  for (const SetupField& field : kSetupFields) {
    const std::size_t value = program.setup.*field.member;
    if (value != defaults.*field.member) text << ' ' << field.name << '=' << value;
  }
  text << '\n';
  for (const Step& step : program.steps) {
    const OpShape& shape = kOps[static_cast<std::size_t>(step.op)];
    text << shape.name;
    for (std::size_t i = 0; i < shape.operand_count; ++i) text << ' ' << step.*kOperands[i];
    text << '\n';
  }
  return text.str();
}

Result<Program, std::string> parse_program(std::string_view text) {
  Program program;
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    const bool good = name == "setup" ? parse_setup(words, program.setup) : parse_step(name, words, program);
    if (!good) return "cannot read the line '" + line + "'";
  }
  return program;
}

}  // namespace cistern::support
