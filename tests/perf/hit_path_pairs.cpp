// Does COUNT times one thing and nothing else, for an instruction counter to watch.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "perf/hit_path_cases.hpp"

namespace {

using namespace cistern::perf;

template <class Case>
int do_pairs(Case&& hit, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) hit.pair();
  return 0;
}

/// The number behind the last underscore.
std::size_t number_in(std::string_view name) {
  return std::strtoull(name.substr(name.rfind('_') + 1).data(), nullptr, 10);
}

int run(std::string_view name, std::size_t count) {
  if (name == "lifo_512") return do_pairs(LastInFirstOut(512), count);
  if (name == "lifo_1MiB") return do_pairs(LastInFirstOut(cistern::kMiB), count);
  if (name.starts_with("churn_")) return do_pairs(RandomChurn(number_in(name)), count);
  if (name.starts_with("fragments_")) return do_pairs(MissesAmongFragments(number_in(name)), count);
  if (name.starts_with("streams_")) return do_pairs(RoundRobin(1, number_in(name)), count);
  if (name.starts_with("devices_")) return do_pairs(RoundRobin(number_in(name), 1), count);
  if (name == "fill") return fill_and_empty(count), 0;
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    if (const int status = run(argv[1], std::strtoull(argv[2], nullptr, 10)); status != 2) return status;
  }
  std::fprintf(stderr,
               "usage: %s lifo_512|lifo_1MiB|churn_LIVE|fragments_FREE|streams_N|devices_N|fill COUNT\n", argv[0]);
  return 2;
}
