#include <algorithm>
#include <chrono>
#include <thread>

#include "captures.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

bool is_ready(const Work& work) {
  return !work.running && std::all_of(work.waits.begin(), work.waits.end(),
                                      [](const MarkerRef& marker) { return marker->done; });
}

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// The user's functions run without the mutex; `running` keeps others away from the head meanwhile.
void run_head(Runtime& state, Stream& stream) {
  Work& head = stream.queue.front();
  head.running = true;
  if (head.calls_back) {
    state.mutex.unlock();
    head.run();
    state.mutex.lock();
  } else if (head.run) {
    head.run();
  }
  head.done->done_at_ns = now_ns();
  head.done->done = true;
  stream.queue.pop_front();
  if (stream.queue.empty()) state.busy.erase(&stream);
}

void wait_for(Work& work, const MarkerRef& marker) {
  if (marker && !marker->done) work.waits.push_back(marker);
}

// The legacy stream and the blocking streams of a device wait for each other.
void order_with_legacy(Runtime& state, const Stream& stream, Work& work) {
  if (stream.flags & cudaStreamNonBlocking) return;
  if (!stream.legacy) {
    wait_for(work, state.devices[static_cast<std::size_t>(stream.device)].legacy->tail);
    return;
  }
  for (const Stream* other : state.busy) {
    if (other != &stream && other->device == stream.device && !(other->flags & cudaStreamNonBlocking)) {
      wait_for(work, other->tail);
    }
  }
}

}  // namespace

Stream* find_stream(Runtime& state, cudaStream_t handle) {
  ThreadState& thread = thread_state();
  const auto device = static_cast<std::size_t>(thread.device);
  if (state.devices.empty()) return nullptr;
  if (handle == nullptr || handle == cudaStreamLegacy) return state.devices[device].legacy;
  if (handle == cudaStreamPerThread) {
    Stream*& own = thread.own_streams[device];
    if (own == nullptr) {
      state.every_stream.push_back(std::make_unique<Stream>());
      own = state.every_stream.back().get();
      own->id = state.next_id++;
      own->device = thread.device;
      own->handle = handle;
    }
    return own;
  }
  Stream** found = state.streams.find(handle);
  return found == nullptr ? nullptr : *found;
}

cudaError_t submit(Runtime& state, Stream& stream, Work work, cudaGraphNodeType type, MarkerRef* marker) {
  if (stream.capture) return capture_work(state, stream, std::move(work), type);
  if (const cudaError_t error = refuse_implicit_order(state, stream); error != cudaSuccess) return error;
  std::erase_if(work.waits, [](const MarkerRef& earlier) { return earlier->done; });
  order_with_legacy(state, stream, work);
  work.done = std::make_shared<Marker>(Marker{.stream = &stream});
  stream.tail = work.done;
  if (marker != nullptr) *marker = work.done;
  stream.queue.push_back(std::move(work));
  state.busy.insert(&stream);
  pump(state);
  return cudaSuccess;
}

void pump(Runtime& state) {
  for (bool progress = true; progress;) {
    progress = false;
    for (Stream* stream : std::vector<Stream*>(state.busy.begin(), state.busy.end())) {
      while (!stream->held && !stream->queue.empty() && is_ready(stream->queue.front())) {
        run_head(state, *stream);
        progress = true;
      }
    }
  }
}

// What work waits for was queued before it, so the recursion ends.
void complete(Runtime& state, const MarkerRef& marker) {
  Stream& stream = *marker->stream;
  while (!marker->done) {
    const Work& head = stream.queue.front();
    if (head.running) {
      state.mutex.unlock();
      std::this_thread::yield();
      state.mutex.lock();
    } else if (is_ready(head)) {
      run_head(state, stream);
    } else {
      complete(state, *std::find_if(head.waits.begin(), head.waits.end(),
                                    [](const MarkerRef& earlier) { return !earlier->done; }));
    }
  }
}

void complete_stream(Runtime& state, Stream& stream) {
  const MarkerRef last = stream.tail;
  if (last) complete(state, last);
  pump(state);
}

void complete_device(Runtime& state, int device) {
  for (Stream* stream : std::vector<Stream*>(state.busy.begin(), state.busy.end())) {
    if (stream->device == device) complete_stream(state, *stream);
  }
}

std::uint64_t advance(Runtime& state, Stream& stream, std::uint64_t count) {
  std::uint64_t completed = 0;
  while (completed < count && !stream.queue.empty() && is_ready(stream.queue.front())) {
    run_head(state, stream);
    ++completed;
    pump(state);
  }
  return completed;
}

const Stream* stream_that_touches(const Runtime& state, const Span& span) {
  for (const Stream* stream : state.busy) {
    for (const Work& work : stream->queue) {
      if (std::any_of(work.touches.begin(), work.touches.end(),
                      [&](const Span& touched) { return touched.overlaps(span); })) {
        return stream;
      }
    }
  }
  return nullptr;
}

}  // namespace fake_cudart
