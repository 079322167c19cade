// Graphs: what captures made, looked at, instantiated and launched.
#include <algorithm>
#include <cstdio>

#include "captures.hpp"
#include "streams.hpp"

namespace fake_cudart {
namespace {

/// Its handle is its address.
struct Executable {
  std::vector<std::function<void()>> runs;
  std::vector<Span> touches;
};

Graph* find_graph(Runtime& state, cudaGraph_t handle) {
  const auto found = state.graphs.find(handle);
  return found == state.graphs.end() ? nullptr : found->second.get();
}

// Tells how many there are, or gives as many as the caller has room for.
void give_nodes(const std::vector<GraphNode*>& nodes, cudaGraphNode_t* out, std::size_t* count) {
  if (out == nullptr) {
    *count = nodes.size();
    return;
  }
  *count = std::min(*count, nodes.size());
  for (std::size_t i = 0; i < *count; ++i) out[i] = reinterpret_cast<cudaGraphNode_t>(nodes[i]);
}

cudaError_t instantiate(Runtime& state, cudaGraphExec_t* out, cudaGraph_t handle) {
  const Graph* graph = find_graph(state, handle);
  if (graph == nullptr || out == nullptr) return cudaErrorInvalidValue;
  auto executable = std::make_shared<Executable>();
  for (const auto& node : graph->nodes) {
    if (node->work.run) executable->runs.push_back(node->work.run);
    executable->touches.insert(executable->touches.end(), node->work.touches.begin(),
                               node->work.touches.end());
  }
  *out = reinterpret_cast<cudaGraphExec_t>(executable.get());
  state.executables.emplace(*out, std::move(executable));
  return cudaSuccess;
}

cudaError_t launch(Runtime& state, cudaGraphExec_t handle, cudaStream_t stream_handle) {
  Stream* stream = find_stream(state, stream_handle);
  const auto found = state.executables.find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (found == state.executables.end()) return cudaErrorInvalidValue;
  const auto executable = std::static_pointer_cast<Executable>(found->second);
  Work work{.touches = executable->touches};
  work.run = [executable] {
    for (const auto& run : executable->runs) run();
  };
  return submit(state, *stream, std::move(work), cudaGraphNodeTypeGraph);
}

cudaError_t draw(Runtime& state, cudaGraph_t handle, const char* path) {
  const Graph* graph = find_graph(state, handle);
  std::FILE* file = graph == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return cudaErrorInvalidValue;
  std::fprintf(file, "digraph captured {\n");
  for (const auto& node : graph->nodes) {
    std::fprintf(file, "  n%p [label=\"type %d\"];\n", static_cast<void*>(node.get()),
                 static_cast<int>(node->type));
    for (const GraphNode* earlier : node->after) {
      std::fprintf(file, "  n%p -> n%p;\n", static_cast<const void*>(earlier),
                   static_cast<void*>(node.get()));
    }
  }
  std::fprintf(file, "}\n");
  std::fclose(file);
  return cudaSuccess;
}

}  // namespace
}  // namespace fake_cudart

using namespace fake_cudart;

extern "C" {

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return runtime_call(__func__, [=](Runtime& state) {
    const Graph* graph = find_graph(state, handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    std::vector<GraphNode*> all;
    for (const auto& node : graph->nodes) all.push_back(node.get());
    give_nodes(all, nodes, count);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData*,
                                         std::size_t* count) {
  return runtime_call(__func__, [=](Runtime&) {
    give_nodes(reinterpret_cast<GraphNode*>(node)->after, nodes, count);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return runtime_call(__func__, [=](Runtime& state) { return instantiate(state, out, graph); });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return runtime_call(__func__, [=](Runtime& state) { return instantiate(state, out, graph); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return runtime_call(__func__, [=](Runtime& state) { return launch(state, executable, stream); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return runtime_call(__func__, [=](Runtime& state) {
    return state.graphs.erase(graph) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return runtime_call(__func__, [=](Runtime& state) {
    return state.executables.erase(executable) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  return runtime_call(__func__, [=](Runtime& state) { return draw(state, graph, path); });
}
}
