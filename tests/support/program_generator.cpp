#include "support/program_generator.hpp"

#include "support/random.hpp"

namespace cistern::support {
namespace {

Setup generate_setup(Random& random) {
  Setup setup;
  setup.strategy = random.below(4);
  setup.trim = random.below(3);
  setup.high_water = random.below(3) * 8 * kMiB;
  setup.least_block = random.one_in(3) ? 64 : 512;
  setup.small_block = random.one_in(4) ? 0 : kMiB;
  setup.whole_only = random.one_in(3) ? 1 : 0;
  setup.granule = setup.whole_only != 0 ? 64 * kKiB << random.below(5) : 64 * kKiB << random.below(6);
  setup.capacity = (16 + random.below(200)) * kMiB / setup.granule * setup.granule;
  setup.range_step = random.one_in(2) ? 0 : setup.granule * (1 + random.below(64));
  if (random.one_in(2)) setup.limit = setup.capacity / (1 + random.below(4));
  if (random.one_in(2)) setup.preallocate = setup.capacity / (2 + random.below(8));
  if (random.one_in(3)) setup.headroom = random.below(8) * kMiB;
  constexpr std::size_t kSlacks[] = {0, 1, 1, 10, 100};
  setup.slack_percent = kSlacks[random.below(5)];
  setup.fences = random.one_in(4) ? 0 : 1;
  setup.streams = 1 + random.below(4);
  setup.pools = random.one_in(3) ? 1 + random.below(2) : 0;
  if (random.one_in(2)) setup.pool_limit = setup.capacity / (2 + random.below(4));
  return setup;
}

/// Weights of the next step; a phase shifts them.
struct Phase {
  std::uint64_t allocate = 45;
  std::uint64_t free = 40;
  std::size_t largest_bytes = 4 * kMiB;
};

Phase generate_phase(Random& random) {
  constexpr Phase kPhases[] = {{60, 25, 4 * kMiB}, {45, 45, 64 * kKiB}, {45, 45, 16 * kMiB},
                               {25, 60, 4 * kMiB}, {45, 43, 4 * kKiB},  {5, 80, 4 * kMiB}};
  return kPhases[random.below(6)];
}

Step generate_allocate(Random& random, const Setup& setup, const Phase& phase) {
  Step step{Op::kAllocate, random.log_uniform(1, phase.largest_bytes), 0, random.below(setup.streams), 0};
  if (random.one_in(3)) step.a = kMiB / 4 * (1 + random.below(16));
  if (random.one_in(500)) step.a = setup.capacity + random.below(2 * setup.capacity);
  if (random.one_in(5000)) step.a = ~std::uint64_t{0} - random.below(3 * kMiB);
  if (random.one_in(4)) step.b = random.below(17);
  if (setup.pools != 0 && random.one_in(3)) step.d = 1 + random.below(setup.pools);
  return step;
}

Step generate_rare(Random& random, const Setup& setup) {
  switch (random.below(9)) {
    case 0:
      return {Op::kTrim, random.one_in(2) ? 0 : random.below(setup.capacity)};
    case 1:
      return {Op::kTick};
    case 2:
      return {Op::kSetLimit, random.log_uniform(1, 2 * setup.capacity), random.below(setup.pools + 1)};
    case 3:
      return {Op::kClearLimit, random.below(setup.pools + 1)};
    case 4:
      return {Op::kRefuse, random.one_in(10) ? kForever : random.below(6)};
    case 5:
      return {Op::kCapture, random.below(4) == 0 ? 1u : 0u};
    case 6:
      return {Op::kReset, random.below(2)};
    case 7:
      return {Op::kRefuse, 0};
    default:
      return {Op::kBadFree, random.below(4), random.next() % 1000};
  }
}

Step generate_step(Random& random, const Setup& setup, const Phase& phase) {
  const std::uint64_t draw = random.below(100);
  if (draw < phase.allocate) return generate_allocate(random, setup, phase);
  // Often the latest or the oldest, else any.
  if (draw < phase.allocate + phase.free) {
    return {Op::kFree, random.one_in(3) ? 0 : random.one_in(3) ? ~std::uint64_t{0} : random.next() % 100000};
  }
  if (setup.fences != 0 && random.below(10) < 8) {
    switch (random.below(4)) {
      case 0:
        return {Op::kRecordStream, random.next() % 100000, random.below(setup.streams)};
      case 1:
        return {Op::kComplete, random.below(setup.streams), 1 + random.below(8)};
      default:
        return {Op::kQueue, random.below(setup.streams)};
    }
  }
  return random.one_in(3) ? generate_rare(random, setup) : generate_allocate(random, setup, phase);
}

}  // namespace

Program generate_program(std::uint64_t seed, std::size_t step_count) {
  Random random(seed);
  Program program;
  program.setup = generate_setup(random);
  program.steps.reserve(step_count);
  Phase phase;
  while (program.steps.size() < step_count) {
    if (random.one_in(200)) phase = generate_phase(random);
    program.steps.push_back(generate_step(random, program.setup, phase));
  }
  return program;
}

}  // namespace cistern::support
