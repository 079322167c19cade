#include "memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fake_cudart {
namespace {

constexpr std::uint64_t kFileBytes = kStretchesEnd + (std::uint64_t{1} << 40);
constexpr std::size_t kPageBytes = 4096;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) / step * step;
}

bool open_file(Device& device) {
  if (device.file >= 0) return true;
  device.file = memfd_create("fake_cudart", MFD_CLOEXEC);
  return device.file >= 0 && ftruncate(device.file, static_cast<off_t>(kFileBytes)) == 0;
}

}  // namespace

std::optional<std::uint64_t> take_stretch(Device& device, std::size_t bytes) {
  if (!open_file(device)) return std::nullopt;
  const std::uint64_t offset = device.file_end;
  device.file_end += round_up(bytes, kGranuleBytes);
  return offset;
}

void give_back_stretch(int file, std::uint64_t offset, std::size_t bytes) {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(round_up(bytes, kPageBytes)));
}

}  // namespace fake_cudart
