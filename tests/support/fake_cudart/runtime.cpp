// The one state of the process: how it begins, counts, fails on command and ends.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "state.hpp"

namespace fake_cudart {
namespace {

std::size_t number_from_environment(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// In a child of a process that used CUDA, CUDA does not work.
void watch_forks() {
  pthread_atfork([] { runtime().mutex.lock(); }, [] { runtime().mutex.unlock(); },
                 [] {
                   Runtime& state = runtime();
                   state.forked = state.all_calls != 0;
                   state.misuses.clear();
                   state.mutex.unlock();
                 });
}

Runtime* make_runtime() {
  auto* state = new Runtime;
  make_devices(*state, static_cast<int>(number_from_environment("FAKE_CUDART_DEVICES", 2)),
               number_from_environment("FAKE_CUDART_BYTES", std::size_t{4} << 30));
  return state;
}

__attribute__((destructor)) void report_misuses() {
  Runtime& state = runtime();
  if (number_from_environment("FAKE_CUDART_STRICT", 0) == 0 || state.misuses.empty()) return;
  for (const std::string& misuse : state.misuses) std::fprintf(stderr, "fake cudart: %s\n", misuse.c_str());
  std::fflush(nullptr);
  _exit(97);
}

}  // namespace

Runtime& runtime() {
  static Runtime* const state = [] {
    Runtime* made = make_runtime();
    return made;
  }();
  static const bool watching = (watch_forks(), true);
  static_cast<void>(watching);
  return *state;
}

void make_devices(Runtime& state, int count, std::size_t bytes) {
  state.devices.clear();
  state.devices.resize(static_cast<std::size_t>(std::min(count, kMaxDevices)));
  for (std::size_t device = 0; device < state.devices.size(); ++device) {
    auto legacy = std::make_unique<Stream>();
    legacy->id = state.next_id++;
    legacy->device = static_cast<int>(device);
    legacy->legacy = true;
    state.devices[device].limit_bytes = bytes;
    state.devices[device].legacy = legacy.get();
    state.every_stream.push_back(std::move(legacy));
  }
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  if (const std::uint64_t epoch = runtime().epoch; state.epoch != epoch) state = {.epoch = epoch};
  return state;
}

cudaError_t Runtime::begin(const char* function) {
  std::string_view name = function;
  if (name.size() > 3 && name.substr(name.size() - 3) == "_v2") name.remove_suffix(3);
  const auto found = calls.find(name);
  ++(found == calls.end() ? calls[std::string(name)] : found->second);
  ++all_calls;
  if (forked) return cudaErrorInitializationError;
  int error = 0;
  for (Failpoint& failpoint : failpoints) {
    if (failpoint.function != "*" && failpoint.function != name) continue;
    if (--failpoint.countdown == 0) error = failpoint.error;
  }
  std::erase_if(failpoints, [](const Failpoint& failpoint) { return failpoint.countdown == 0; });
  return static_cast<cudaError_t>(error);
}

bool Runtime::claim(int device, std::size_t bytes) {
  Device& owner = devices[static_cast<std::size_t>(device)];
  if (bytes > fail_above_bytes || owner.used_bytes > owner.limit_bytes) return false;
  if (bytes > owner.limit_bytes - owner.used_bytes) return false;
  owner.used_bytes += bytes;
  owner.peak_used_bytes = std::max(owner.peak_used_bytes, owner.used_bytes);
  return true;
}

void Runtime::refund(int device, std::size_t bytes) {
  devices[static_cast<std::size_t>(device)].used_bytes -= bytes;
}

std::string hexadecimal(Address address) {
  char text[2 + 2 * sizeof address + 1];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(address));
  return text;
}

}  // namespace fake_cudart
