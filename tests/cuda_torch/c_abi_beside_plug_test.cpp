// The C interface and the CUDA plug in one process: whoever comes second is refused, as two caches would starve each
// other.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cistern/adapters/c10_cuda/install.hpp"
#include "cistern/adapters/c_abi/cistern.h"
#include "cistern/base/units.hpp"
#include "support/fake_cudart/control.hpp"

namespace cistern {
namespace {

using ::testing::ExitedWithCode;

std::string error_of_install() {
  try {
    install_cuda();
  } catch (const InstallError& error) {
    return error.what();
  }
  return "";
}

class CAbiBesidePlug : public ::testing::Test {
 protected:
  // What is installed stays, so each test has a process of its own.
  CAbiBesidePlug() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(CAbiBesidePlug, ThePlugIsNotInstalledWhereTheCInterfaceServes) {
  EXPECT_EXIT(
      {
        void* data = cistern_alloc(kMiB, 0, nullptr);
        for (int i = 0; i < 2; ++i) std::fprintf(stderr, "%s\n", error_of_install().c_str());
        cistern_free(data, kMiB, 0, nullptr);
        std::exit(data != nullptr && cistern_trim("cuda:0", 0, nullptr) == 0 && fakecuda_used_bytes(0) == 0 ? 0 : 1);
      },
      ExitedWithCode(0), "cistern_alloc of the C interface serves CUDA.*\n.*the C interface serves CUDA");
}

TEST_F(CAbiBesidePlug, TheCInterfaceAllocatesNothingWhereThePlugServesAndKnowsItsDevicesAllTheSame) {
  EXPECT_EXIT(
      {
        install_cuda();
        if (cistern_alloc(kMiB, 0, nullptr) != nullptr) std::exit(1);
        std::fprintf(stderr, "%s\n", cistern_last_error());
        cistern_stats stats{};
        std::exit(cistern_get_stats("cuda:1", &stats, sizeof stats) == 0 && fakecuda_used_bytes(1) == 0 ? 0 : 2);
      },
      ExitedWithCode(0), "is served by cistern's plug for torch; cistern_alloc would be a second cache");
}

}  // namespace
}  // namespace cistern
