// Work of streams: queued, completed, captured.
#pragma once

#include "state.hpp"

namespace fake_cudart {

/// The stream a handle means for this thread, the special handles included; null if it is none of ours.
Stream* find_stream(Runtime& state, cudaStream_t handle);

/// Adds work to the stream's capture if it captures, else to its queue, where it may be done at once.
/// Fails as the driver does where a capture forbids it. `marker`, if wanted, is the queued work's.
cudaError_t submit(Runtime& state, Stream& stream, Work work, cudaGraphNodeType type,
                   MarkerRef* marker = nullptr);

/// Does what is queued and neither held nor waiting.
void pump(Runtime& state);
/// Makes time pass until the marked work is done, holds or not.
void complete(Runtime& state, const MarkerRef& marker);
void complete_stream(Runtime& state, Stream& stream);
void complete_device(Runtime& state, int device);
/// As fakecuda_advance.
std::uint64_t advance(Runtime& state, Stream& stream, std::uint64_t count);

/// The first stream with undone work that touches the span; null if there is none.
const Stream* stream_that_touches(const Runtime& state, const Span& span);

}  // namespace fake_cudart
