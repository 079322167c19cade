// A CUDA runtime without a GPU, written for tests: libcudart.so.13 and libcuda.so.1 under which an unmodified
// torch wheel runs, and which a test steers through the functions below (also by dlsym, or ctypes: they are
// plain C).
//
// Devices. Two unless FAKE_CUDART_DEVICES=n or fakecuda_reset says otherwise, each with a byte budget
// (FAKE_CUDART_BYTES, default 4 GiB). Memory is real address space that reads 0 when fresh, so copies move
// bytes. cudaMalloc is charged to 512 bytes, physical memory of the driver's functions comes in granules of 2
// MiB. Kernels do nothing and succeed; FAKE_CUDART_KERNELS=error makes every launch fail.
//
// Streams. A stream does its work at once, unless the test holds it: then copies, memsets, event records,
// waits and host functions queue up until fakecuda_advance or fakecuda_release. What synchronises
// (cudaStreamSynchronize, a copy to pageable memory, cudaFree of the device's memory) makes time pass: it
// completes what it waits for, held or not. Handles of destroyed streams and events are given out again at
// once; cudaStreamGetId never repeats.
//
// Captures follow the driver: while a stream captures in global mode, unsafe calls (cudaMalloc, cudaFree,
// event and stream queries, synchronisation) of every thread that is not in relaxed mode fail and invalidate
// the capture.
//
// Misuse that a driver punishes later, or never reports, is recorded at once: see fakecuda_misuses. With
// FAKE_CUDART_STRICT=1 a process that misused something exits with 97 whatever it meant to exit with.
//
// Use: link a test with cistern_fake_cuda, or
// LD_PRELOAD=<build>/fake/libcudart.so.13:<build>/fake/libcuda.so.1.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Forgets everything, as a new process would: objects, memory, holds, failpoints, counters, misuses, and
/// what threads chose. Requires that nobody uses what existed. Never under torch, which keeps handles.
void fakecuda_reset(int device_count, std::size_t device_bytes);

/// What the device can hold from now on; what is there already stays.
void fakecuda_set_device_bytes(int device, std::size_t bytes);
/// Bytes of the budget that are taken, and the most that ever were.
std::size_t fakecuda_used_bytes(int device);
std::size_t fakecuda_peak_used_bytes(int device);

/// Whether devices can reach each other's memory (they can).
void fakecuda_set_peer_possible(int possible);

// Streams are given as handles; 0 is the legacy stream of the calling thread's device.
void fakecuda_hold(void* stream);
/// Completes up to `count` queued pieces of work of a held stream; fewer if one waits for another stream.
/// Gives how many were completed.
std::uint64_t fakecuda_advance(void* stream, std::uint64_t count);
/// Ends the hold; queued work is done at once, unless it waits for another stream.
void fakecuda_release(void* stream);
void fakecuda_release_all(void);
/// Work queued and not done.
std::uint64_t fakecuda_pending(void* stream);
/// Queues work that touches [address, address + bytes), as a kernel with that argument would.
void fakecuda_touch(void* stream, const void* address, std::size_t bytes);

/// The `nth` call of `function` from now (1 is the next) fails with `error` (of cudaError_t or CUresult) and
/// does nothing else; "*" counts calls of all functions. Several may be set. _v2 is no part of a name.
void fakecuda_fail_call(const char* function, std::uint64_t nth, int error);
/// All requests for more than that many bytes run out of memory.
void fakecuda_fail_above(std::size_t bytes);
void fakecuda_clear_failures(void);

/// How often `function` was called, failures included; "*" is all of them.
std::uint64_t fakecuda_calls(const char* function);
void fakecuda_reset_calls(void);
/// One line per function that was called: name and count. Valid until this thread's next call of a text
/// function.
const char* fakecuda_calls_text(void);

/// What exists now.
struct fakecuda_counts {
  std::uint64_t device_allocations;  ///< cudaMalloc and the like.
  std::uint64_t host_allocations;
  std::uint64_t
      physical_handles;  ///< References that cuMemCreate, Retain and Import gave and Release did not take.
  std::uint64_t physical_bytes;  ///< Referred to by a handle or a mapping.
  std::uint64_t mappings;
  std::uint64_t address_ranges;
  std::uint64_t events;
  std::uint64_t streams;
  std::uint64_t captures;
  std::uint64_t implicit_waits;  ///< cudaFree calls that had to wait for work which used that very memory.
};
void fakecuda_count(struct fakecuda_counts* out);
/// One line for each object counted above, with its address or handle and size.
const char* fakecuda_live_text(void);

/// What a real driver would have punished: one line each.
std::uint64_t fakecuda_misuse_count(void);
const char* fakecuda_misuses(void);
void fakecuda_forget_misuses(void);
}
