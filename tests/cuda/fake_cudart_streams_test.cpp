// The fake runtime's streams, events and captures: what is done when, and what a capture forbids.
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fake_cudart_fixture.hpp"

namespace {

using cistern::support::FakeCudart;

// Streams and events.

TEST_F(FakeCudart, AStreamThatNobodyHoldsDoesItsWorkAtOnce) {
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, make_stream()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeCudart, AHeldStreamGoesOnlyAsFarAsItIsAdvanced) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t first = make_event();
  const cudaEvent_t second = make_event();
  fakecuda_hold(stream);
  cudaEventRecord(first, stream);
  cudaEventRecord(second, stream);
  EXPECT_EQ(fakecuda_pending(stream), 2u);
  EXPECT_EQ(cudaEventQuery(first), cudaErrorNotReady);
  EXPECT_EQ(fakecuda_advance(stream, 1), 1u);
  EXPECT_EQ(cudaEventQuery(first), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(second), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  fakecuda_release(stream);
  EXPECT_EQ(cudaEventQuery(second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST_F(FakeCudart, ACopyOfAHeldStreamMovesItsBytesOnlyWhenItsTurnComes) {
  const cudaStream_t stream = make_stream();
  char* memory = allocate(8);
  fakecuda_hold(stream);
  {
    const std::string sent = "changes";
    EXPECT_EQ(cudaMemcpyAsync(memory, sent.c_str(), 8, cudaMemcpyHostToDevice, stream), cudaSuccess);
  }
  EXPECT_STREQ(memory, "");
  fakecuda_release(stream);
  EXPECT_STREQ(memory, "changes");
}

TEST_F(FakeCudart, WorkThatWaitsForAnEventIsNotDoneBeforeIt) {
  const cudaStream_t held = make_stream();
  const cudaStream_t other = make_stream();
  const cudaEvent_t earlier = make_event();
  const cudaEvent_t later = make_event();
  fakecuda_hold(held);
  cudaEventRecord(earlier, held);
  EXPECT_EQ(cudaStreamWaitEvent(other, earlier, 0), cudaSuccess);
  cudaEventRecord(later, other);
  EXPECT_EQ(cudaEventQuery(later), cudaErrorNotReady);
  EXPECT_EQ(fakecuda_advance(other, 5), 0u);
  fakecuda_release(held);
  EXPECT_EQ(cudaEventQuery(later), cudaSuccess);
}

TEST_F(FakeCudart, SynchronisingMakesTimePassForAHeldStream) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  fakecuda_hold(stream);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
}

TEST_F(FakeCudart, HandlesComeBackAndIdsNeverDo) {
  const cudaStream_t first = make_stream();
  const unsigned long long first_id = id_of(first);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first), cudaErrorInvalidResourceHandle);
  const cudaStream_t second = make_stream();
  EXPECT_EQ(second, first);
  EXPECT_NE(id_of(second), first_id);
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(make_event(), event);
}

TEST_F(FakeCudart, TheLegacyStreamIsOneAndThePerThreadStreamIsOneForEachThread) {
  EXPECT_EQ(id_of(nullptr), id_of(cudaStreamLegacy));
  EXPECT_NE(id_of(cudaStreamPerThread), id_of(nullptr));
  EXPECT_EQ(id_of(cudaStreamPerThread), id_of(cudaStreamPerThread));
  unsigned long long other_legacy = 0;
  unsigned long long other_own = 0;
  std::thread([&] {
    other_legacy = id_of(nullptr);
    other_own = id_of(cudaStreamPerThread);
  }).join();
  EXPECT_EQ(other_legacy, id_of(nullptr));
  EXPECT_NE(other_own, id_of(cudaStreamPerThread));
}

TEST_F(FakeCudart, TheLegacyStreamWaitsForBlockingStreamsOnly) {
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  const cudaStream_t free_running = make_stream();
  const cudaEvent_t event = make_event();
  fakecuda_hold(free_running);
  cudaEventRecord(event, free_running);
  cudaEventRecord(event, nullptr);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  fakecuda_hold(blocking);
  cudaEventRecord(event, blocking);
  cudaEventRecord(event, nullptr);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  fakecuda_release(blocking);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeCudart, ElapsedTimeNeedsEventsThatTakeTime) {
  const cudaEvent_t start = make_event(cudaEventDefault);
  const cudaEvent_t end = make_event(cudaEventDefault);
  cudaEventRecord(start, nullptr);
  cudaEventRecord(end, nullptr);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, make_event()), cudaErrorInvalidResourceHandle);
}

TEST_F(FakeCudart, HostFunctionsRunInTheOrderOfTheStreamAndMayCallTheRuntime) {
  const cudaStream_t stream = make_stream();
  std::string order;
  const auto append = [](void* text) {
    *static_cast<std::string*>(text) += "host ";
    int device = 0;
    cudaGetDevice(&device);
  };
  fakecuda_hold(stream);
  EXPECT_EQ(cudaLaunchHostFunc(stream, append, &order), cudaSuccess);
  EXPECT_EQ(order, "");
  fakecuda_release(stream);
  EXPECT_EQ(order, "host ");
}

// Captures.

TEST_F(FakeCudart, UnsafeCallsFailWhileAStreamCapturesAndSpoilTheCapture) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  cudaEventRecord(event, stream);
  char* memory = allocate(512);
  void* more = nullptr;
  const std::vector<std::function<cudaError_t()>> unsafe_calls = {
      [&] { return cudaMalloc(&more, 512); },   [&] { return cudaFree(memory); },
      [&] { return cudaEventQuery(event); },    [&] { return cudaEventSynchronize(event); },
      [&] { return cudaStreamQuery(nullptr); }, [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaDeviceSynchronize(); },  [&] { return cudaHostAlloc(&more, 512, 0); },
  };
  for (const auto& call : unsafe_calls) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
  }
}

TEST_F(FakeCudart, ARelaxedThreadMayCallWhatItLikesDuringACapture) {
  const cudaStream_t stream = make_stream();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaFree(allocate(512)), cudaSuccess);
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(FakeCudart, AGlobalCaptureForbidsOtherThreadsAndAThreadLocalOneDoesNot) {
  const cudaStream_t stream = make_stream();
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    cudaError_t result = cudaSuccess;
    std::thread([&] {
      void* memory = nullptr;
      result = cudaMalloc(&memory, 512);
    }).join();
    const bool forbidden = mode == cudaStreamCaptureModeGlobal;
    EXPECT_EQ(result, forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph),
              forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
}

TEST_F(FakeCudart, ACapturedEventCannotBeAsked) {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(FakeCudart, AGraphRepeatsWhatWasCapturedOnAllStreamsThatJoined) {
  const cudaStream_t stream = make_stream();
  const cudaStream_t side = make_stream();
  const cudaEvent_t fork = make_event();
  const cudaEvent_t join = make_event();
  char* memory = allocate(2);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(fork, stream);
  EXPECT_EQ(cudaStreamWaitEvent(side, fork, 0), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(side, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaMemsetAsync(memory, 'a', 1, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory + 1, 'b', 1, side), cudaSuccess);
  cudaEventRecord(join, side);
  EXPECT_EQ(cudaStreamWaitEvent(stream, join, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(memory[0], 0);
  std::size_t node_count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &node_count), cudaSuccess);
  EXPECT_EQ(node_count, 2u);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    cudaMemset(memory, 0, 2);
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(std::string(memory, 2), "ab");
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(FakeCudart, ACaptureThatLeavesAStreamBehindFails) {
  const cudaStream_t stream = make_stream();
  const cudaStream_t side = make_stream();
  const cudaEvent_t fork = make_event();
  char* memory = allocate(1);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(side, fork, 0);
  cudaMemsetAsync(memory, 'b', 1, side);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
}

TEST_F(FakeCudart, ACapturedStreamCannotDependOnOutsideWorkNorTheLegacyStreamOnItsCapture) {
  const cudaStream_t stream = make_stream(cudaStreamDefault);
  const cudaEvent_t outside = make_event();
  cudaEventRecord(outside, nullptr);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(outside, nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
}

}  // namespace
