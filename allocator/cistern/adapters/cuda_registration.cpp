#include "cistern/adapters/cuda_registration.hpp"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cistern/adapters/own_trace.hpp"
#include "cistern/adapters/registry.hpp"

namespace cistern {
namespace {

std::string name_of(int device) { return "cuda:" + std::to_string(device); }

int index_of(std::string_view name) { return std::stoi(std::string(name.substr(name.find(':') + 1))); }

/// A file for each device. Never destroyed: frees outlive main.
std::vector<std::unique_ptr<OwnTrace>>& traces() {
  static auto& the = *std::make_unique<std::vector<std::unique_ptr<OwnTrace>>>().release();
  return the;
}

}  // namespace

void register_cuda_family(CudaDevices& devices) {
  DeviceFamily family;
  family.kind = "cuda";
  family.names = [&devices] {
    std::vector<std::string> names;
    for (int device = 0; device < devices.driver().device_count(); ++device) names.push_back(name_of(device));
    return names;
  };
  family.use = [&devices](std::string_view name) -> CachingAllocator& {
    if (devices.count() == 0) devices.set_count(devices.driver().device_count());
    return devices.at(index_of(name)).allocator();
  };
  family.used_bytes = [&devices](std::string_view name) -> std::optional<std::size_t> {
    if (devices.is_forked_child()) return std::nullopt;
    const DriverApi::Memory memory = devices.driver().memory(index_of(name));
    return memory.total_bytes - memory.free_bytes;
  };
  register_family(std::move(family));
}

void register_cuda_device(CudaDevice& device, const std::string& record) {
  const std::string name = name_of(device.index());
  register_device(name, device.allocator());
  if (record.empty()) return;
  traces().push_back(std::make_unique<OwnTrace>(record + "." + name, device.allocator()));
  if (traces().size() > 1) return;
  std::atexit([] {
    for (const auto& trace : traces()) trace->end();
  });
}

}  // namespace cistern
