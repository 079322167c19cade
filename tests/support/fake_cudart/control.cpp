// What tests say to the fake runtime.
#include "control.hpp"

#include <unistd.h>

#include "captures.hpp"
#include "memory.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

template <class Body>
auto control_call(Body body) {
  Runtime& state = runtime();
  const std::lock_guard lock(state.mutex);
  return body(state);
}

const char* keep_text(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

void give_everything_back(Runtime& state) {
  for (const auto& [address, range] : state.ranges) unmap_pages(range);
  for (const auto& [address, allocation] : state.allocations) {
    if (allocation.kind != MemoryKind::kRegistered) unmap_pages(allocation.span);
  }
  for (const auto& [id, physical] : state.physicals) {
    if (!physical.owned) close(physical.file);
  }
  for (const Device& device : state.devices) {
    if (device.file >= 0) close(device.file);
  }
}

void forget_everything(Runtime& state) {
  state.allocations.clear();
  state.ranges.clear();
  state.mappings.clear();
  state.physicals.clear();
  state.streams.clear();
  state.events.clear();
  state.busy.clear();
  state.captures.clear();
  state.graphs.clear();
  state.executables.clear();
  state.every_stream.clear();
  state.peer_possible = true;
  state.calls.clear();
  state.all_calls = 0;
  state.failpoints.clear();
  state.fail_above_bytes = SIZE_MAX;
  state.implicit_waits = 0;
  state.misuses.clear();
  ++state.epoch;
}

std::string list_live(Runtime& state) {
  std::string text;
  const auto line = [&](const char* what, Address name, std::size_t bytes) {
    text += std::string(what) + " " + hexadecimal(name);
    text += bytes == 0 ? "\n" : " " + std::to_string(bytes) + "\n";
  };
  for (const auto& [address, allocation] : state.allocations) {
    line(is_on_device(state, address) ? "device memory" : "host memory", address, allocation.span.bytes);
  }
  for (const auto& [id, physical] : state.physicals) line("physical memory", id, physical.bytes);
  for (const auto& [address, mapping] : state.mappings) line("mapping", address, mapping.span.bytes);
  for (const auto& [address, range] : state.ranges) line("address range", address, range.bytes);
  state.events.for_each([&](std::shared_ptr<Event>& event) { line("event", address_of(event->handle), 0); });
  state.streams.for_each([&](Stream* stream) { line("stream", address_of(stream->handle), 0); });
  for (const auto& capture : state.captures) line("capture", capture->id, 0);
  return text;
}

void count_live(Runtime& state, fakecuda_counts& out) {
  out = {};
  for (const auto& [address, allocation] : state.allocations) {
    ++(is_on_device(state, address) ? out.device_allocations : out.host_allocations);
  }
  for (const auto& [id, physical] : state.physicals) {
    out.physical_handles += physical.handle_count;
    out.physical_bytes += physical.bytes;
  }
  out.mappings = state.mappings.size();
  out.address_ranges = state.ranges.size();
  out.events = state.events.size();
  out.streams = state.streams.size();
  out.captures = state.captures.size();
  out.implicit_waits = state.implicit_waits;
}

// A test that names a stream there is not must hear of it.
template <class Use>
auto with_stream(void* handle, Use use) {
  return control_call([&](Runtime& state) {
    Stream* stream = find_stream(state, static_cast<cudaStream_t>(handle));
    if (stream == nullptr) {
      state.misuse("control: " + hexadecimal(address_of(handle)) + " is no stream");
      return decltype(use(state, *stream)){};
    }
    return use(state, *stream);
  });
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

void fakecuda_reset(int device_count, std::size_t device_bytes) {
  control_call([&](Runtime& state) {
    give_everything_back(state);
    forget_everything(state);
    make_devices(state, device_count, device_bytes);
  });
}

void fakecuda_set_device_bytes(int device, std::size_t bytes) {
  control_call(
      [&](Runtime& state) { state.devices.at(static_cast<std::size_t>(device)).limit_bytes = bytes; });
}

std::size_t fakecuda_used_bytes(int device) {
  return control_call(
      [&](Runtime& state) { return state.devices.at(static_cast<std::size_t>(device)).used_bytes; });
}

std::size_t fakecuda_peak_used_bytes(int device) {
  return control_call(
      [&](Runtime& state) { return state.devices.at(static_cast<std::size_t>(device)).peak_used_bytes; });
}

void fakecuda_set_peer_possible(int possible) {
  control_call([&](Runtime& state) { state.peer_possible = possible != 0; });
}

void fakecuda_hold(void* handle) {
  with_stream(handle, [](Runtime&, Stream& stream) { return stream.held = true; });
}

std::uint64_t fakecuda_advance(void* handle, std::uint64_t count) {
  return with_stream(handle, [&](Runtime& state, Stream& stream) { return advance(state, stream, count); });
}

void fakecuda_release(void* handle) {
  with_stream(handle, [](Runtime& state, Stream& stream) {
    stream.held = false;
    pump(state);
    return true;
  });
}

void fakecuda_release_all() {
  control_call([](Runtime& state) {
    for (const auto& stream : state.every_stream) stream->held = false;
    pump(state);
  });
}

std::uint64_t fakecuda_pending(void* handle) {
  return with_stream(handle, [](Runtime&, Stream& stream) { return std::uint64_t{stream.queue.size()}; });
}

void fakecuda_touch(void* handle, const void* address, std::size_t bytes) {
  with_stream(handle, [&](Runtime& state, Stream& stream) {
    const Span span{address_of(address), bytes};
    const Allocation* allocation = find_allocation(state, span.begin);
    const auto& reachable = state.devices[static_cast<std::size_t>(stream.device)].reachable;
    if (allocation != nullptr && is_on_device(state, span.begin) && allocation->device != stream.device &&
        reachable.count(allocation->device) == 0) {
      state.misuse("fakecuda_touch: device " + std::to_string(stream.device) + " may not touch " +
                   hexadecimal(span.begin) + " of device " + std::to_string(allocation->device));
    }
    check_touch(state, "fakecuda_touch", stream.device, span);
    return submit(state, stream, {.touches = {span}}, cudaGraphNodeTypeKernel);
  });
}

void fakecuda_fail_call(const char* function, std::uint64_t nth, int error) {
  control_call([&](Runtime& state) { state.failpoints.push_back({function, nth, error}); });
}

void fakecuda_fail_above(std::size_t bytes) {
  control_call([&](Runtime& state) { state.fail_above_bytes = bytes; });
}

void fakecuda_clear_failures() {
  control_call([](Runtime& state) {
    state.failpoints.clear();
    state.fail_above_bytes = SIZE_MAX;
  });
}

std::uint64_t fakecuda_calls(const char* function) {
  return control_call([&](Runtime& state) {
    if (std::string_view(function) == "*") return state.all_calls;
    const auto found = state.calls.find(std::string_view(function));
    return found == state.calls.end() ? 0 : found->second;
  });
}

void fakecuda_reset_calls() {
  control_call([](Runtime& state) {
    state.calls.clear();
    state.all_calls = 0;
  });
}

const char* fakecuda_calls_text() {
  return control_call([](Runtime& state) {
    std::string text;
    for (const auto& [function, count] : state.calls) text += function + " " + std::to_string(count) + "\n";
    return keep_text(std::move(text));
  });
}

void fakecuda_count(fakecuda_counts* out) {
  control_call([&](Runtime& state) { count_live(state, *out); });
}

const char* fakecuda_live_text() {
  return control_call([](Runtime& state) { return keep_text(list_live(state)); });
}

std::uint64_t fakecuda_misuse_count() {
  return control_call([](Runtime& state) { return std::uint64_t{state.misuses.size()}; });
}

const char* fakecuda_misuses() {
  return control_call([](Runtime& state) {
    std::string text;
    for (const std::string& misuse : state.misuses) text += misuse + "\n";
    return keep_text(std::move(text));
  });
}

void fakecuda_forget_misuses() {
  control_call([](Runtime& state) { state.misuses.clear(); });
}
}
