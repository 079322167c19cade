// Device memory for the C interface. Knows nothing of torch: one set of devices in the process, made when somebody
// first allocates, with the options of CISTERN_CONF.
#pragma once

#include <cstddef>

namespace cistern {

/// On the device and for the stream, a cudaStream_t of it. Null for 0 bytes.
/// Fails with std::exception, whose text is the whole explanation: out of memory, no such device, no driver, a child of
/// fork, or another plug of cistern that serves CUDA in this process.
/// Threads: any, as all of this file.
void* allocate_cuda(std::size_t bytes, int device, void* stream);

/// Requires what allocate_cuda was asked for, and what it gave or null. Anything else is misuse: one line on stderr,
/// and the process ends; or with misuse:report std::invalid_argument, and nothing changed.
/// Fails with std::bad_alloc, after a line on stderr too, as CachingAllocator::free. In a child of fork: nothing.
void free_cuda(void* address, std::size_t bytes, int device, void* stream);

/// Says that `stream` uses the block too: it is not granted again before the work that is queued there when it is freed
/// is done. Nothing happens for null, and in a child of fork.
/// Fails with std::invalid_argument if no live block starts there, and with DriverError for a handle of no stream.
void record_cuda_stream(void* address, void* stream);

}  // namespace cistern
