// Stream capture: what it records and what it forbids.
#pragma once

#include "state.hpp"

namespace fake_cudart {

struct GraphNode {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;
  std::vector<GraphNode*> after;
};

/// Its handle is its address.
struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;  ///< Each after those it depends on.
  cudaGraph_t handle() { return reinterpret_cast<cudaGraph_t>(this); }
};

/// From cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::set<Stream*> streams;
  Graph* graph = nullptr;  ///< Owned by the runtime.
  bool invalidated = false;
};

/// Fails, and invalidates the captures at fault, where a potentially unsafe call is prohibited to this
/// thread.
cudaError_t refuse_unsafe(Runtime& state);
/// The same for work on `stream` that would be ordered with a capturing stream behind its back: the legacy
/// stream while a blocking stream of the device captures.
cudaError_t refuse_implicit_order(Runtime& state, const Stream& stream);
/// The same for a call that cannot be about a capturing stream, such as waiting for it.
cudaError_t refuse_captured(Stream& stream);

/// Adds a node to the graph that the stream captures into.
cudaError_t capture_work(Runtime& state, Stream& stream, Work work, cudaGraphNodeType type);
/// Makes later captured work of the stream depend on what the event stands for; the stream joins its capture.
cudaError_t capture_wait(Runtime& state, Stream& stream, const Event& event);

}  // namespace fake_cudart
