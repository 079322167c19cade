#include "cuda_torch/differential_program.hpp"

#include <sstream>

namespace cistern::support {
namespace {

struct OpShape {
  const char* name;
  std::size_t operand_count;
};

constexpr OpShape kOps[] = {
    {"allocate", 2}, {"free", 1},       {"record_stream", 2}, {"hold", 1},
    {"advance", 2},  {"release", 1},    {"empty_cache", 0},   {"fraction", 1},
    {"squeeze", 1},  {"begin_pool", 2}, {"end_pool", 1},      {"release_pool", 1},
};

constexpr std::uint64_t DeviceStep::*kOperands[] = {&DeviceStep::a, &DeviceStep::b};

struct SetupField {
  const char* name;
  std::size_t DeviceProgram::*member;
};

constexpr SetupField kSetupFields[] = {{"device_bytes", &DeviceProgram::device_bytes},
                                       {"streams", &DeviceProgram::streams},
                                       {"malloc", &DeviceProgram::malloc}};

bool parse_setup(std::istringstream& words, DeviceProgram& program) {
  std::string name;
  while (words >> name) {
    bool known = false;
    for (const SetupField& field : kSetupFields) {
      if (name == field.name) known = static_cast<bool>(words >> program.*field.member);
    }
    if (!known) return false;
  }
  return program.streams != 0;
}

bool parse_step(const std::string& name, std::istringstream& words, DeviceProgram& program) {
  for (std::size_t op = 0; op < std::size(kOps); ++op) {
    if (name != kOps[op].name) continue;
    DeviceStep step;
    step.op = static_cast<DeviceOp>(op);
    for (std::size_t i = 0; i < kOps[op].operand_count; ++i) {
      if (!(words >> step.*kOperands[i])) return false;
    }
    program.steps.push_back(step);
    return true;
  }
  return false;
}

}  // namespace

std::string to_text(const DeviceProgram& program) {
  std::ostringstream text;
  text << "setup";
  for (const SetupField& field : kSetupFields) text << ' ' << field.name << ' ' << program.*field.member;
  text << '\n';
  for (const DeviceStep& step : program.steps) {
    const OpShape& shape = kOps[static_cast<std::size_t>(step.op)];
    text << shape.name;
    for (std::size_t i = 0; i < shape.operand_count; ++i) text << ' ' << step.*kOperands[i];
    text << '\n';
  }
  return text.str();
}

Result<DeviceProgram, std::string> parse_device_program(std::string_view text) {
  DeviceProgram program;
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    const bool good = name == "setup" ? parse_setup(words, program) : parse_step(name, words, program);
    if (!good) return "cannot read the line '" + line + "'";
  }
  return program;
}

}  // namespace cistern::support
