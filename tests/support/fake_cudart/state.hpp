// What the parts of the fake runtime share: one object for the process, under one mutex.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "handle_table.hpp"
#include "span.hpp"

namespace fake_cudart {

inline constexpr std::size_t kGranuleBytes = std::size_t{2} << 20;
inline constexpr int kMaxDevices = 16;

struct Stream;
struct Graph;
struct GraphNode;
struct Capture;

/// Becomes done together with the piece of work it stands for.
struct Marker {
  Stream* stream = nullptr;
  bool done = false;
  std::uint64_t done_at_ns = 0;
};
using MarkerRef = std::shared_ptr<Marker>;

/// A piece of a stream's work.
struct Work {
  std::function<void()> run;  ///< May be empty.
  bool calls_back = false;    ///< `run` is the user's: called without the mutex.
  bool running = false;
  std::vector<MarkerRef> waits;
  std::vector<Span> touches;
  MarkerRef done;
};

/// Never deleted before a reset: markers and ids refer to it for ever.
struct Stream {
  std::uint64_t id = 0;
  cudaStream_t handle = nullptr;
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  bool destroyed = false;
  bool held = false;
  std::deque<Work> queue;
  MarkerRef tail;  ///< Of the last work queued.
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> capture_tail;  ///< What the next captured work depends on.
};

struct Event {
  cudaEvent_t handle = nullptr;
  int device = 0;
  unsigned flags = 0;
  MarkerRef marker;                  ///< Of the last record; null before the first.
  std::shared_ptr<Capture> capture;  ///< The last record was captured by this.
  std::vector<GraphNode*> captured_after;
};

enum class MemoryKind : std::uint8_t { kDevice, kManaged, kIpc, kHost, kRegistered };

struct Allocation {
  Span span;
  int device = 0;
  MemoryKind kind = MemoryKind::kDevice;
  unsigned flags = 0;
  std::uint64_t offset = 0;  ///< Of device memory, in its device's file.
};

/// A created piece of physical memory: a stretch of a memory file.
struct Physical {
  int device = 0;
  std::size_t bytes = 0;
  int file = -1;
  std::uint64_t offset = 0;
  CUmemAllocationProp properties{};
  std::uint64_t handle_count = 0;
  std::uint64_t mapping_count = 0;
  bool owned = true;  ///< Charged to our device; false if another process' memory was imported.
};

struct Mapping {
  Span span;
  std::uint64_t physical = 0;
  std::size_t offset = 0;
  std::array<CUmemAccess_flags, kMaxDevices> access{};
};

struct Device {
  std::size_t limit_bytes = 0;
  std::size_t used_bytes = 0;
  std::size_t peak_used_bytes = 0;
  Stream* legacy = nullptr;
  std::set<int> reachable;  ///< Peers whose memory work of this device may touch.
  int file = -1;            ///< Holds its memory.
  std::uint64_t file_end = 0;
};

struct Failpoint {
  std::string function;
  std::uint64_t countdown = 0;
  int error = 0;
};

struct ThreadState {
  std::uint64_t epoch = 0;  ///< Of the reset after which this was made.
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::array<Stream*, kMaxDevices> own_streams{};  ///< Per-thread default streams.
};
ThreadState& thread_state();

struct Runtime {
  std::mutex mutex;
  std::uint64_t epoch = 1;
  bool forked = false;  ///< This is a child of a process that had begun to use CUDA.
  bool peer_possible = true;
  std::vector<Device> devices;

  std::map<Address, Allocation> allocations;
  std::map<Address, Span> ranges;
  std::map<Address, Mapping> mappings;
  std::map<std::uint64_t, Physical> physicals;
  std::uint64_t next_physical = 1;

  HandleTable<cudaStream_t, Stream*> streams{0x5'0000'0000};
  HandleTable<cudaEvent_t, std::shared_ptr<Event>> events{0x6'0000'0000};
  std::vector<std::unique_ptr<Stream>> every_stream;
  std::set<Stream*> busy;  ///< Have work that is not done.
  std::set<std::shared_ptr<Capture>> captures;
  std::map<cudaGraph_t, std::shared_ptr<Graph>> graphs;
  std::map<cudaGraphExec_t, std::shared_ptr<void>> executables;
  std::uint64_t next_id = 1;

  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::uint64_t all_calls = 0;
  std::vector<Failpoint> failpoints;
  std::size_t fail_above_bytes = SIZE_MAX;
  std::uint64_t implicit_waits = 0;
  std::vector<std::string> misuses;

  /// Counts a call; other than success if it must fail instead of doing anything.
  cudaError_t begin(const char* function);
  /// Charges a device, or says that it cannot.
  bool claim(int device, std::size_t bytes);
  void refund(int device, std::size_t bytes);
  bool has_device(int device) const { return device >= 0 && device < static_cast<int>(devices.size()); }
  void misuse(const std::string& what) { misuses.push_back(what); }
};

/// Made at first use, never destroyed. A reset replaces what is in it.
Runtime& runtime();
/// As the environment says.
void make_devices(Runtime& state, int count, std::size_t bytes);

/// The body of a runtime function: counted, failed when a test says so, run under the mutex, and remembered
/// as the thread's last error.
template <class Body>
cudaError_t runtime_call(const char* function, Body body) {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  cudaError_t result = state.begin(function);
  if (result == cudaSuccess) result = body(state);
  if (result != cudaSuccess) thread_state().last_error = result;
  return result;
}

/// The same for a driver function. Errors of both faces have the same numbers.
template <class Body>
CUresult driver_call(const char* function, Body body) {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  const auto refused = static_cast<CUresult>(state.begin(function));
  return refused == CUDA_SUCCESS ? body(state) : refused;
}

}  // namespace fake_cudart
