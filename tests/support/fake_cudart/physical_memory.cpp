#include "physical_memory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "memory_file.hpp"

namespace fake_cudart {
namespace {

// What an importer must know of a stretch lies behind all of them, found by the number of its first granule.
struct Record {
  std::uint64_t bytes = 0;
  CUmemAllocationProp properties{};
};

off_t record_position(std::uint64_t offset) {
  return static_cast<off_t>(kStretchesEnd + offset / kGranuleBytes * sizeof(Record));
}

bool same_file(int a, int b) {
  struct stat first = {};
  struct stat second = {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

CUresult create_physical(Runtime& state, std::uint64_t* id, std::size_t bytes,
                         const CUmemAllocationProp& properties) {
  if (bytes == 0 || bytes % kGranuleBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties.requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!state.has_device(properties.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  Device& device = state.devices[static_cast<std::size_t>(properties.location.id)];
  if (!state.claim(properties.location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::optional<std::uint64_t> offset = take_stretch(device, bytes);
  const Record record{bytes, properties};
  if (!offset || pwrite(device.file, &record, sizeof record, record_position(*offset)) != sizeof record) {
    state.refund(properties.location.id, bytes);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *id = state.next_physical++;
  state.physicals.emplace(*id, Physical{.device = properties.location.id,
                                        .bytes = bytes,
                                        .file = device.file,
                                        .offset = *offset,
                                        .properties = properties,
                                        .handle_count = 1});
  return CUDA_SUCCESS;
}

void drop_unreferenced(Runtime& state, std::uint64_t id) {
  const Physical& physical = state.physicals.at(id);
  if (physical.handle_count != 0 || physical.mapping_count != 0) return;
  if (physical.owned) {
    give_back_stretch(physical.file, physical.offset, physical.bytes);
    state.refund(physical.device, physical.bytes);
  } else {
    close(physical.file);
  }
  state.physicals.erase(id);
}

CUresult export_physical(const Physical& physical, int* descriptor) {
  if (!(physical.properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Opened anew, for a position of its own, which travels with the descriptor.
  const std::string path = "/proc/self/fd/" + std::to_string(physical.file);
  *descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (*descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  lseek(*descriptor, static_cast<off_t>(physical.offset), SEEK_SET);
  return CUDA_SUCCESS;
}

CUresult import_physical(Runtime& state, std::uint64_t* id, int descriptor) {
  const off_t position = lseek(descriptor, 0, SEEK_CUR);
  Record record;
  if (position < 0 ||
      pread(descriptor, &record, sizeof record, record_position(static_cast<std::uint64_t>(position))) !=
          sizeof record ||
      record.bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto& [known, physical] : state.physicals) {
    if (physical.offset == static_cast<std::uint64_t>(position) && same_file(physical.file, descriptor)) {
      ++physical.handle_count;
      *id = known;
      return CUDA_SUCCESS;
    }
  }
  const int file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *id = state.next_physical++;
  state.physicals.emplace(*id, Physical{.device = record.properties.location.id,
                                        .bytes = record.bytes,
                                        .file = file,
                                        .offset = static_cast<std::uint64_t>(position),
                                        .properties = record.properties,
                                        .handle_count = 1,
                                        .owned = false});
  return CUDA_SUCCESS;
}

}  // namespace fake_cudart
