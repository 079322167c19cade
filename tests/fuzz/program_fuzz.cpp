// Any bytes as a program for the allocator, judged like the random programs of tests/property. A finding
// prints the program as text, to shrink and keep there.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "support/program_runner.hpp"

namespace {

using namespace cistern;
using namespace cistern::support;

/// Reads numbers of a byte or two, zero once the bytes run out.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  std::uint64_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint64_t pair() {
    const std::uint64_t low = byte();
    return low | byte() << 8;
  }
  bool empty() const { return left_ == 0; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

Setup decode_setup(Bytes& bytes) {
  Setup setup;
  const std::uint64_t flags = bytes.byte();
  setup.strategy = flags % 3;
  setup.trim = flags / 3 % 3;
  setup.whole_only = flags / 9 % 2;
  setup.fences = flags / 18 % 2;
  setup.least_block = flags / 36 % 2 != 0 ? 64 : 512;
  setup.small_block = flags / 72 % 2 != 0 ? 0 : kMiB;
  setup.granule = 64 * kKiB << bytes.byte() % 6;
  setup.capacity = (1 + bytes.byte()) * 2 * kMiB;
  setup.limit = bytes.byte() * kMiB;
  setup.range_step = bytes.byte() % 64 * setup.granule;
  setup.preallocate = bytes.byte() * kMiB;
  setup.high_water = bytes.byte() * kMiB;
  setup.slack_percent = bytes.byte() % 101;
  setup.streams = 1 + bytes.byte() % 4;
  setup.pools = bytes.byte() % 3;
  setup.pool_limit = bytes.byte() * kMiB;
  return setup;
}

/// A size of up to 32 MiB from two bytes, finer when smaller.
std::uint64_t decode_size(Bytes& bytes) {
  const std::uint64_t draw = bytes.pair();
  return (draw & 0x7ff) << (draw >> 11) % 15;
}

Step decode_step(Bytes& bytes) {
  Step step;
  step.op = static_cast<Op>(bytes.byte() % kOpCount);
  const bool sized = step.op == Op::kAllocate || step.op == Op::kTrim || step.op == Op::kSetLimit;
  step.a = sized ? decode_size(bytes) : bytes.byte();
  if (step.op == Op::kAllocate) step.b = bytes.byte() % 22;
  if (step.op == Op::kBadFree || step.op == Op::kComplete || step.op == Op::kRecordStream)
    step.b = bytes.byte();
  const std::uint64_t which = step.op == Op::kAllocate || step.op == Op::kSetLimit ? bytes.byte() : 0;
  if (step.op == Op::kSetLimit) step.b = which;
  step.c = which % 16;
  step.d = which / 16;
  return step;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Program program;
  program.setup = decode_setup(bytes);
  while (!bytes.empty()) program.steps.push_back(decode_step(bytes));
  const Outcome outcome = run_program(program);
  if (!outcome.violation) return 0;
  std::fprintf(stderr, "%s\n%s", outcome.violation->c_str(), to_text(program).c_str());
  std::abort();
}
