// Fences by events: streams that are held, gone, reused, captured or on another device; and calls that fail.
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "cistern/sources/cuda/event_fences.hpp"
#include "cuda/fake_cuda.hpp"

namespace cistern {
namespace {

using support::count_fakes;
using support::current_device;
using support::fake_api;
using support::make_stream;

class EventFencesTest : public support::FakeCuda {
 protected:
  EventFencesTest() : fences_(std::make_unique<EventFences>(fake_api(), 0)) {}
  void TearDown() override {
    fakecuda_release_all();
    fences_.reset();
    FakeCuda::TearDown();
  }
  /// A stream whose work waits for the test.
  cudaStream_t held_stream() {
    const cudaStream_t stream = make_stream();
    fakecuda_hold(stream);
    return stream;
  }
  void begin_capture(cudaStream_t stream) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  void end_capture_unharmed(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << "the capture was spoiled";
    cudaGraphDestroy(graph);
  }

  std::unique_ptr<EventFences> fences_;
};

TEST_F(EventFencesTest, AFenceIsDoneWhenTheWorkBeforeItIs) {
  const cudaStream_t stream = held_stream();
  const StreamId id = fences_->identify(stream);
  const FenceId fence = fences_->record(id);
  EXPECT_NE(fence, kNoFence);
  EXPECT_EQ(fences_->query(fence), FenceState::kNotYet);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is no error of anybody";
  fakecuda_release(stream);
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  fences_->release(fence);
}

TEST_F(EventFencesTest, WaitingMakesItDone) {
  const FenceId fence = fences_->record(fences_->identify(held_stream()));
  fences_->wait(fence);
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  fences_->release(fence);
}

TEST_F(EventFencesTest, EventsAreReusedAndFencesNeverShareANumber) {
  const StreamId id = fences_->identify(make_stream());
  std::set<FenceId> names;
  for (int i = 0; i < 100; ++i) {
    const FenceId first = fences_->record(id);
    const FenceId second = fences_->record(id);
    names.insert({first, second});
    fences_->release(first);
    fences_->release(second);
  }
  EXPECT_EQ(names.size(), 200u);
  EXPECT_EQ(fences_->event_count(), 2u);
  EXPECT_EQ(count_fakes().events, 2u);
}

TEST_F(EventFencesTest, TheDefaultStreamIsOneStreamWhateverItsHandle) {
  EXPECT_EQ(fences_->identify(nullptr), fences_->identify(cudaStreamLegacy));
  EXPECT_NE(fences_->identify(nullptr), fences_->identify(make_stream()));
  fakecuda_reset_calls();
  fences_->identify(nullptr);
  EXPECT_EQ(fakecuda_calls("*"), 0u);
}

TEST_F(EventFencesTest, ThePerThreadDefaultStreamIsAnotherInEachThread) {
  const StreamId mine = fences_->identify(cudaStreamPerThread);
  EXPECT_EQ(fences_->identify(cudaStreamPerThread), mine);
  std::thread([&] {
    EXPECT_NE(fences_->identify(cudaStreamPerThread), mine);
    // From here the stream cannot be named, so the device is waited for.
    const FenceId fence = fences_->record(mine);
    EXPECT_EQ(fences_->query(fence), FenceState::kDone);
    fences_->release(fence);
  }).join();
  EXPECT_EQ(fakecuda_calls("cudaDeviceSynchronize"), 1u);
}

TEST_F(EventFencesTest, AReusedHandleIsAnotherStreamAndTheOldOneIsWaitedForWithTheDevice) {
  const cudaStream_t first = make_stream();
  const StreamId old_id = fences_->identify(first);
  ASSERT_EQ(cudaStreamDestroy(first), cudaSuccess);
  const cudaStream_t second = make_stream();
  ASSERT_EQ(first, second) << "the fake gives handles out again";
  const StreamId new_id = fences_->identify(second);
  EXPECT_NE(new_id, old_id);
  fakecuda_hold(second);
  const FenceId fence = fences_->record(old_id);
  EXPECT_EQ(fakecuda_calls("cudaDeviceSynchronize"), 1u);
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  EXPECT_FALSE(fences_->order_after(old_id, fences_->record(new_id)));
  fences_->release(fence);
}

TEST_F(EventFencesTest, AStreamThatIsGoneHasFencesToo) {
  const cudaStream_t stream = make_stream();
  const StreamId id = fences_->identify(stream);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  const FenceId fence = fences_->record(id);
  EXPECT_EQ(fakecuda_calls("cudaDeviceSynchronize"), 1u);
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  fences_->wait(fence);
  fences_->release(fence);
}

TEST_F(EventFencesTest, OrderingAfterAFenceHoldsTheOtherStreamBack) {
  const cudaStream_t busy = held_stream();
  const cudaStream_t owner = make_stream();
  const FenceId fence = fences_->record(fences_->identify(busy));
  EXPECT_TRUE(fences_->order_after(fences_->identify(owner), fence));
  fences_->release(fence);
  const FenceId later = fences_->record(fences_->identify(owner));
  EXPECT_EQ(fences_->query(later), FenceState::kNotYet);
  fakecuda_release(busy);
  EXPECT_EQ(fences_->query(later), FenceState::kDone);
  fences_->release(later);
}

TEST_F(EventFencesTest, NothingIsRecordedIntoACaptureAndNoQuestionSpoilsIt) {
  const cudaStream_t captured = make_stream();
  const cudaStream_t other = held_stream();
  const StreamId captured_id = fences_->identify(captured);
  const FenceId before = fences_->record(captured_id);
  EXPECT_FALSE(fences_->capturing());
  begin_capture(captured);
  EXPECT_TRUE(fences_->capturing());
  std::thread([&] {
    EXPECT_EQ(fences_->record(captured_id), kNoFence);
    EXPECT_EQ(fences_->query(before), FenceState::kDone);
    const FenceId fence = fences_->record(fences_->identify(other));
    EXPECT_EQ(fences_->query(fence), FenceState::kNotYet);
    EXPECT_FALSE(fences_->order_after(captured_id, fence));
    fences_->wait(fence);
    fences_->release(fence);
  }).join();
  end_capture_unharmed(captured);
  EXPECT_NE(fences_->record(captured_id), kNoFence);
  fences_->release(before);
}

TEST_F(EventFencesTest, TheDefaultStreamIsLeftAloneWhileABlockingStreamCaptures) {
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  begin_capture(blocking);
  EXPECT_EQ(fences_->record(fences_->identify(nullptr)), kNoFence);
  end_capture_unharmed(blocking);
  EXPECT_NE(fences_->record(fences_->identify(nullptr)), kNoFence);
}

TEST_F(EventFencesTest, AGoneStreamIsNotWaitedForWhileAnotherCaptures) {
  const cudaStream_t gone = make_stream();
  const cudaStream_t captured = make_stream();
  const StreamId gone_id = fences_->identify(gone);
  fences_->identify(captured);
  ASSERT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  begin_capture(captured);
  EXPECT_EQ(fences_->record(gone_id), kNoFence);
  end_capture_unharmed(captured);
  EXPECT_NE(fences_->record(gone_id), kNoFence);
}

TEST_F(EventFencesTest, TheCurrentDeviceDoesNotMatterAndStays) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const FenceId fence = fences_->record(fences_->identify(nullptr));
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  EXPECT_EQ(current_device(), 1);
  fences_->release(fence);
}

TEST_F(EventFencesTest, AStreamOfAPeerHasFencesOfItsOwnDevice) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t peer = held_stream();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const FenceId fence = fences_->record(fences_->identify(peer, 1));
  EXPECT_EQ(fences_->query(fence), FenceState::kNotYet);
  EXPECT_NE(fences_->identify(nullptr, 1), fences_->identify(nullptr));
  fakecuda_release(peer);
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  fences_->release(fence);
  EXPECT_EQ(fences_->faults().count(), 0u);
}

TEST_F(EventFencesTest, AFaultOfRecordingIsKeptAndTheNextRecordingWorks) {
  const StreamId id = fences_->identify(make_stream());
  for (const char* call : {"cudaGetDevice", "cudaStreamGetId", "cudaStreamIsCapturing", "cudaEventCreateWithFlags",
                           "cudaEventRecord"}) {
    fakecuda_fail_call(call, 1, cudaErrorUnknown);
    EXPECT_EQ(fences_->record(id), kNoFence) << call;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    const auto fault = fences_->faults().take();
    ASSERT_TRUE(fault) << call;
    EXPECT_STREQ(fault->call(), call);
  }
  EXPECT_NE(fences_->record(id), kNoFence);
  EXPECT_EQ(fences_->event_count(), 1u);
}

TEST_F(EventFencesTest, AQueryThatFailsMeansNotNow) {
  const FenceId fence = fences_->record(fences_->identify(nullptr));
  fakecuda_fail_call("cudaEventQuery", 1, cudaErrorUnknown);
  EXPECT_EQ(fences_->query(fence), FenceState::kCannotAskNow);
  EXPECT_STREQ(fences_->faults().take()->call(), "cudaEventQuery");
  EXPECT_EQ(fences_->query(fence), FenceState::kDone);
  fakecuda_fail_call("cudaEventQuery", 1, cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(fences_->query(fence), FenceState::kCannotAskNow);
  EXPECT_FALSE(fences_->faults().take()) << "a capture is no fault";
  fences_->release(fence);
}

TEST_F(EventFencesTest, AWaitThatFailsIsAnErrorAndNothingCountsAsDone) {
  const FenceId fence = fences_->record(fences_->identify(held_stream()));
  fakecuda_fail_call("cudaEventSynchronize", 1, cudaErrorUnknown);
  EXPECT_THROW(fences_->wait(fence), DriverError);
  EXPECT_EQ(fences_->query(fence), FenceState::kNotYet);
  fences_->release(fence);
}

TEST_F(EventFencesTest, AnOrderThatFailsIsNotGiven) {
  const FenceId fence = fences_->record(fences_->identify(nullptr));
  fakecuda_fail_call("cudaStreamWaitEvent", 1, cudaErrorUnknown);
  EXPECT_FALSE(fences_->order_after(fences_->identify(make_stream()), fence));
  EXPECT_STREQ(fences_->faults().take()->call(), "cudaStreamWaitEvent");
  fences_->release(fence);
}

TEST_F(EventFencesTest, AnUnloadingDriverHasDoneEverything) {
  const StreamId id = fences_->identify(nullptr);
  const FenceId early = fences_->record(id);
  for (const char* call : {"cudaGetDevice", "cudaEventRecord"}) {
    fakecuda_fail_call(call, 1, cudaErrorCudartUnloading);
    const FenceId fence = fences_->record(id);
    ASSERT_NE(fence, kNoFence) << call;
    EXPECT_EQ(fences_->query(fence), FenceState::kDone);
    fences_->release(fence);
  }
  fakecuda_fail_call("cudaEventQuery", 1, cudaErrorCudartUnloading);
  EXPECT_EQ(fences_->query(early), FenceState::kDone);
  fakecuda_fail_call("cudaEventSynchronize", 1, cudaErrorCudartUnloading);
  EXPECT_NO_THROW(fences_->wait(early));
  fences_->release(early);
  EXPECT_EQ(fences_->faults().count(), 0u);
}

TEST_F(EventFencesTest, ManyThreadsMayRecordAndAskAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const StreamId id = fences_->identify(make_stream());
      for (int i = 0; i < 200; ++i) {
        const FenceId fence = fences_->record(id);
        fences_->wait(fence);
        EXPECT_EQ(fences_->query(fence), FenceState::kDone);
        fences_->release(fence);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(fences_->event_count(), 4u);
}

}  // namespace
}  // namespace cistern
