// Does COUNT pairs of one case of the hit path and nothing else, for an instruction counter to watch.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "perf/hit_path_cases.hpp"

namespace {

template <class Case>
void do_pairs(Case&& hit, long count) {
  for (long i = 0; i < count; ++i) hit.pair();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cistern::perf;
  if (argc == 3) {
    const char* name = argv[1];
    const long count = std::atol(argv[2]);
    if (std::strcmp(name, "lifo_512") == 0) return do_pairs(LastInFirstOut(512), count), 0;
    if (std::strcmp(name, "lifo_1MiB") == 0) return do_pairs(LastInFirstOut(cistern::kMiB), count), 0;
    if (std::strcmp(name, "churn_100") == 0) return do_pairs(RandomChurn(100), count), 0;
    if (std::strcmp(name, "churn_1000") == 0) return do_pairs(RandomChurn(1000), count), 0;
    if (std::strcmp(name, "churn_10000") == 0) return do_pairs(RandomChurn(10'000), count), 0;
  }
  std::fprintf(stderr, "usage: %s lifo_512|lifo_1MiB|churn_100|churn_1000|churn_10000 COUNT\n", argv[0]);
  return 2;
}
