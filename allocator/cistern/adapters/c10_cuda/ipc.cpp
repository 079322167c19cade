// Sharing memory with other processes: what a handle says, and how it becomes memory again.
#include <c10/cuda/CUDAFunctions.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cistern/adapters/c10_cuda/cuda_allocator.hpp"
#include "cistern/sources/cuda/driver_functions.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {
namespace {

/// A handle is this, then what its kind says. Both processes have the same cistern, or the magic differs.
struct IpcHeader {
  char magic[7] = {'c', 'i', 's', 't', 'i', 'p', '1'};
  char kind = 0;  ///< kGranules: `count` ints, descriptors of the process; kMalloc: a cudaIpcMemHandle_t.
  std::int32_t process = 0;
  std::uint32_t count = 0;
  std::uint64_t granule_bytes = 0;
};
constexpr char kGranules = 'v';
constexpr char kMalloc = 'm';

template <class Value>
void append(std::string& text, const Value& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes a value off the front.
template <class Value>
Value take_off(std::string_view& text) {
  TORCH_CHECK(text.size() >= sizeof(Value), "cistern: this is no handle of shared memory that cistern made");
  Value value;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

/// A descriptor of another process, as one of ours.
FileDescriptor descriptor_of(const DriverFunctions& functions, int process, int descriptor) {
  const FileDescriptor other(functions, static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  const int ours = static_cast<int>(syscall(SYS_pidfd_getfd, other.get(), descriptor, 0));
  TORCH_CHECK(ours >= 0, "cistern: cannot take over memory of process ", process, ": ", std::strerror(errno),
              "; the system must let one process trace the other (kernel.yama.ptrace_scope), or say source:malloc in "
              "CISTERN_CONF of both");
  return FileDescriptor(functions, ours);
}

/// Granules of another process, mapped side by side. Its members go in reverse order: mappings, memory, addresses.
struct ImportedGranules {
  AddressRange space;
  std::vector<PhysicalGranule> memory;
  std::vector<Mapping> mappings;
};

std::shared_ptr<void> import_granules(const DriverApi& driver, int device, const IpcHeader& header,
                                      std::string_view descriptors) {
  const DriverFunctions& functions = driver.functions();
  const std::size_t bytes = header.count * header.granule_bytes;
  auto granules = std::make_shared<ImportedGranules>();
  auto space = reserve_addresses(functions, bytes, header.granule_bytes);
  TORCH_CHECK(space, "cistern: no address space for shared memory");
  granules->space = std::move(*space);
  const Address base = granules->space.get().address;
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const FileDescriptor file = descriptor_of(functions, header.process, take_off<std::int32_t>(descriptors));
    CUmemGenericAllocationHandle handle = 0;
    functions.check("cuMemImportFromShareableHandle",
                    functions.cuMemImportFromShareableHandle(
                        &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(file.get())),
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    granules->memory.emplace_back(functions, handle);
    auto mapping = map(functions, {base + i * header.granule_bytes, header.granule_bytes}, granules->memory.back());
    TORCH_CHECK(mapping, "cistern: the driver cannot map shared memory");
    granules->mappings.push_back(std::move(*mapping));
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  functions.check("cuMemSetAccess", functions.cuMemSetAccess(base, bytes, &access, 1));
  return {granules, reinterpret_cast<void*>(base)};
}

/// The runtime opens a segment once in a process, so all who want it share.
std::shared_ptr<void> open_segment(const DriverApi& driver, int device, const cudaIpcMemHandle_t& handle) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::weak_ptr<void>> open;  // guarded by mutex
  const std::string key(handle.reserved, sizeof handle.reserved);
  const std::scoped_lock lock(mutex);
  if (auto present = open[key].lock()) return present;
  void* base = nullptr;
  driver.functions().check("cudaIpcOpenMemHandle", driver.functions().cudaIpcOpenMemHandle(
                                                       &base, handle, cudaIpcMemLazyEnablePeerAccess));
  std::shared_ptr<void> segment(base, [driver, device](void* address) {
    try {
      const DeviceGuard guard(driver.functions(), device);
      driver.functions().cudaIpcCloseMemHandle(address);
    } catch (const DriverError&) {  // the process ends, and the mapping with it
    }
  });
  open[key] = segment;
  return segment;
}

}  // namespace

c10::cuda::CUDACachingAllocator::ShareableHandle CudaAllocator::shareIpcHandle(void* data) {
  const auto address = reinterpret_cast<Address>(data);
  const auto owner = devices_.find_owner(address);
  TORCH_CHECK(owner, "cistern: only a live CUDA block can be shared, and ", data, " is none");
  TORCH_CHECK(owner->foreign == nullptr, "cistern: memory of a pool with an allocator of its own cannot be shared");
  return as_torch_errors([&]() -> c10::cuda::CUDACachingAllocator::ShareableHandle {
    IpcHeader header;
    header.process = getpid();
    std::string handle;
    if (WholeSource* segments = owner->device->malloc()) {
      const auto base = segments->base_allocation(address);
      header.kind = kMalloc;
      append(handle, header);
      cudaIpcMemHandle_t segment;
      const DriverFunctions& functions = devices_.driver().functions();
      functions.check("cudaIpcGetMemHandle",
                      functions.cudaIpcGetMemHandle(&segment, reinterpret_cast<void*>(base->address)));
      append(handle, segment);
      return {static_cast<std::ptrdiff_t>(address - base->address), std::move(handle)};
    }
    const std::scoped_lock lock(exports_mutex_);
    auto found = exports_.find(address);
    if (found == exports_.end()) {
      Export made{owner->device, owner->block.granted_bytes,
                  owner->device->vmm()->export_granules(address, owner->block.granted_bytes)};
      found = exports_.emplace(address, std::move(made)).first;
      export_count_.store(exports_.size(), std::memory_order_release);
    }
    const ExportedGranules& granules = found->second.granules;
    header.kind = kGranules;
    header.count = static_cast<std::uint32_t>(granules.descriptors.size());
    header.granule_bytes = granules.granule_bytes;
    append(handle, header);
    for (const FileDescriptor& descriptor : granules.descriptors) append(handle, std::int32_t{descriptor.get()});
    return {static_cast<std::ptrdiff_t>(address - granules.base), std::move(handle)};
  });
}

void CudaAllocator::end_export(Address address) {
  const std::scoped_lock lock(exports_mutex_);
  const auto found = exports_.find(address);
  if (found == exports_.end()) return;
  found->second.device->vmm()->unpin(address, found->second.bytes);
  exports_.erase(found);
  export_count_.store(exports_.size(), std::memory_order_release);
}

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string handle) {
  std::string_view rest = handle;
  const auto header = take_off<IpcHeader>(rest);
  TORCH_CHECK(std::memcmp(header.magic, IpcHeader{}.magic, sizeof header.magic) == 0,
              "cistern: this is no handle of shared memory that cistern made; both processes must use cistern");
  c10::DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return as_torch_errors([&] {
    if (header.kind == kGranules) return import_granules(devices_.driver(), device, header, rest);
    return open_segment(devices_.driver(), device, take_off<cudaIpcMemHandle_t>(rest));
  });
}

}  // namespace cistern
