// cistern-bench's driver of TensorFlow's allocator, the wheel's own library. Variant growing doubles its
// regions as allow_growth does; variant preallocate takes what it is to have at once. It knows neither
// streams nor pools: blocks are reusable at once by whichever comes next.
#include <memory>
#include <optional>

#include "driver.hpp"
#include "invented_memory.hpp"
#include "xla/tsl/framework/bfc_allocator.h"

namespace cistern::bench {
namespace {

class Device final : public tsl::SubAllocator {
 public:
  explicit Device(InventedMemory& memory) : tsl::SubAllocator({}, {}), memory_(memory) {}

  void* Alloc(std::size_t, std::size_t bytes, std::size_t* received) override {
    *received = bytes;
    return memory_.allocate(bytes);
  }
  void Free(void*, std::size_t bytes) override { memory_.free(bytes); }
  bool SupportsCoalescing() const override { return false; }

 private:
  InventedMemory& memory_;
};

class Bfc {
 public:
  explicit Bfc(const std::string& variant) : grows_(variant == "growing") {
    if (!grows_ && variant != "preallocate") throw std::invalid_argument("unknown variant " + variant);
  }

  void expect(const ReplayProgram&) {}
  void start(std::uint64_t capacity_bytes, std::uint64_t wish_bytes) {
    const std::uint64_t taken = grows_ ? capacity_bytes : std::min(capacity_bytes, wish_bytes);
    memory_.emplace(taken);
    tsl::BFCAllocator::Options options;
    options.allow_growth = grows_;
    options.allow_retry_on_failure = false;
    allocator_ =
        std::make_unique<tsl::BFCAllocator>(std::make_unique<Device>(*memory_), taken, "bfc", options);
  }
  void stop() {
    allocator_.reset();
    memory_.reset();
  }

  void* allocate(std::uint64_t bytes, std::uint64_t, unsigned) {
    return allocator_->AllocateRaw(tsl::Allocator::kAllocatorAlignment, bytes, once_);
  }
  void free(void* data, std::uint64_t, std::uint64_t) { allocator_->DeallocateRaw(data); }
  void use(void*, std::uint64_t) {}
  void sync(std::uint64_t) {}
  void step() {}

  Usage usage() const { return memory_->usage(); }

 private:
  const bool grows_;
  const tsl::AllocationAttributes once_{/*retry_on_failure=*/false, /*allocation_will_be_logged=*/true,
                                        nullptr};
  std::optional<InventedMemory> memory_;
  std::unique_ptr<tsl::BFCAllocator> allocator_;
};

}  // namespace
}  // namespace cistern::bench

int main(int argc, char** argv) {
  return cistern::bench::run_driver<cistern::bench::Bfc>(argc, argv);
}
