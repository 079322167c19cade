#include "cistern/adapters/c10_cpu/mobile.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include "cistern/adapters/c10_cpu/install.hpp"

namespace cistern {
namespace {

class MobileAllocator final : public c10::CPUCachingAllocator {
 public:
  MobileAllocator() : core_(install_cpu()), allocator_(*c10::GetCPUAllocator()) {}

  void* allocate(const std::size_t bytes) override { return allocator_.raw_allocate(bytes); }

  /// What was made before the guard is the C library's.
  void free(void* data) override {
    if (core_.find_range(reinterpret_cast<Address>(data))) {
      allocator_.raw_deallocate(data);
    } else {
      c10::free_cpu(data);
    }
  }

 private:
  CachingAllocator& core_;
  c10::Allocator& allocator_;
};

/// Never destroyed, as the allocator under it.
MobileAllocator* mobile_allocator() {
  static auto* const allocator = new MobileAllocator;  // NOLINT(cppcoreguidelines-owning-memory)
  return allocator;
}

}  // namespace

MobileMemoryGuard::MobileMemoryGuard() : guard_(mobile_allocator()) {}

}  // namespace cistern
