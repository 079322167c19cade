#include "captures.hpp"

#include <algorithm>

#include "streams.hpp"

namespace fake_cudart {
namespace {

bool prohibits(const Capture& capture, cudaStreamCaptureMode thread_mode) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return capture.mode != cudaStreamCaptureModeRelaxed;
  return capture.mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
}

void leave(Capture& capture) {
  for (Stream* stream : capture.streams) {
    stream->capture.reset();
    stream->capture_tail.clear();
  }
}

// All that `node` depends on, itself included.
void gather_past(GraphNode* node, std::set<GraphNode*>& past) {
  if (!past.insert(node).second) return;
  for (GraphNode* earlier : node->after) gather_past(earlier, past);
}

bool is_joined(const Capture& capture) {
  std::set<GraphNode*> past;
  for (GraphNode* node : capture.origin->capture_tail) gather_past(node, past);
  for (const Stream* stream : capture.streams) {
    for (GraphNode* node : stream->capture_tail) {
      if (past.count(node) == 0) return false;
    }
  }
  return true;
}

cudaError_t begin_capture(Runtime& state, cudaStream_t handle, cudaStreamCaptureMode mode) {
  Stream* stream = find_stream(state, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  auto graph = std::make_unique<Graph>();
  auto capture = std::make_shared<Capture>();
  capture->id = state.next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->streams = {stream};
  capture->graph = graph.get();
  stream->capture = capture;
  state.captures.insert(std::move(capture));
  const cudaGraph_t name = graph->handle();
  state.graphs.emplace(name, std::move(graph));
  return cudaSuccess;
}

cudaError_t end_capture(Runtime& state, cudaStream_t handle, cudaGraph_t* out) {
  *out = nullptr;
  Stream* stream = find_stream(state, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = is_joined(*capture);
  leave(*capture);
  state.captures.erase(capture);
  if (capture->invalidated || !joined) {
    state.graphs.erase(capture->graph->handle());
    return capture->invalidated ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
  }
  *out = capture->graph->handle();
  return cudaSuccess;
}

// Of blocking streams, if `stream` is the legacy stream of their device.
std::vector<Capture*> captures_ordered_with(const Runtime& state, const Stream& stream) {
  std::vector<Capture*> result;
  if (!stream.legacy) return result;
  for (const std::shared_ptr<Capture>& capture : state.captures) {
    if (std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* captured) {
          return captured->device == stream.device && !(captured->flags & cudaStreamNonBlocking);
        })) {
      result.push_back(capture.get());
    }
  }
  return result;
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (!stream.capture) return cudaStreamCaptureStatusNone;
  return stream.capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

}  // namespace

cudaError_t refuse_unsafe(Runtime& state) {
  const cudaStreamCaptureMode mode = thread_state().capture_mode;
  cudaError_t result = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : state.captures) {
    if (!prohibits(*capture, mode)) continue;
    capture->invalidated = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t refuse_implicit_order(Runtime& state, const Stream& stream) {
  const std::vector<Capture*> ordered = captures_ordered_with(state, stream);
  for (Capture* capture : ordered) capture->invalidated = true;
  return ordered.empty() ? cudaSuccess : cudaErrorStreamCaptureImplicit;
}

cudaError_t refuse_captured(Stream& stream) {
  if (!stream.capture) return cudaSuccess;
  stream.capture->invalidated = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t capture_work(Runtime&, Stream& stream, Work work, cudaGraphNodeType type) {
  Capture& capture = *stream.capture;
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  auto node = std::make_unique<GraphNode>();
  node->type = type;
  node->work = std::move(work);
  node->after = stream.capture_tail;
  stream.capture_tail = {node.get()};
  capture.graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

cudaError_t capture_wait(Runtime& state, Stream& stream, const Event& event) {
  if (!event.capture || state.captures.count(event.capture) == 0) {
    if (!stream.capture) return cudaErrorCapturedEvent;
    stream.capture->invalidated = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->invalidated = event.capture->invalidated = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream.legacy) {
    event.capture->invalidated = true;
    return cudaErrorStreamCaptureImplicit;
  }
  stream.capture = event.capture;
  stream.capture->streams.insert(&stream);
  for (GraphNode* node : event.captured_after) {
    if (std::find(stream.capture_tail.begin(), stream.capture_tail.end(), node) ==
        stream.capture_tail.end()) {
      stream.capture_tail.push_back(node);
    }
  }
  return cudaSuccess;
}

}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return runtime_call(__func__, [=](Runtime& state) { return begin_capture(state, stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return runtime_call(__func__, [=](Runtime& state) { return end_capture(state, stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return runtime_call(__func__, [=](Runtime& state) {
    const Stream* stream = find_stream(state, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!captures_ordered_with(state, *stream).empty()) return cudaErrorStreamCaptureImplicit;
    *status = status_of(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  return runtime_call(__func__, [=](Runtime& state) {
    const Stream* stream = find_stream(state, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!captures_ordered_with(state, *stream).empty()) return cudaErrorStreamCaptureImplicit;
    *status = status_of(*stream);
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->graph->handle();
    if (dependencies != nullptr) {
      *dependencies = reinterpret_cast<const cudaGraphNode_t*>(stream->capture_tail.data());
    }
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = stream->capture_tail.size();
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return runtime_call(__func__, [=](Runtime&) {
    std::swap(*mode, thread_state().capture_mode);
    return cudaSuccess;
  });
}
}
