// The allocator under torch's CPU tensors, from an installed library.
#include <ATen/ATen.h>
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "cistern/adapters/c10_cpu/install.hpp"
#include "cistern/memory.hpp"

int main() {
  cistern::CachingAllocator& allocator = cistern::install_cpu();
  const at::Tensor squares = at::ones({512, 512}).mm(at::ones({512, 512}));
  const std::size_t live_bytes = allocator.stats().requested.current;
  std::printf("product %g, live %zu bytes\n", squares[0][0].item<double>(), live_bytes);

  // Another library's BLAS must not take torch's place: it would be twenty times slower.
  Dl_info blas{};
  if (!dladdr(dlsym(RTLD_DEFAULT, "sgemm_"), &blas)) return 1;
  if (std::string(blas.dli_fname).find("libtorch_cpu") == std::string::npos) return 1;
  if (cistern::memory_info("cpu").current_bytes < live_bytes) return 1;  // granted is asked for, rounded up
  return live_bytes >= 512 * 512 * sizeof(float) ? 0 : 1;
}
