/* cistern for other languages: a C interface that only grows. Link libcistern_c_abi, or open it at run time.
 *
 * A device is named "cpu", "cuda:0", "cuda:1", ... or "pinned", once something is installed for it, or cistern_alloc
 * was called.
 * Functions that return int return 0, or -1 and leave the reason to cistern_last_error.
 * All may be called from any thread at once. */
#ifndef CISTERN_H
#define CISTERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char* cistern_version(void);

/* Why the last call of this thread that failed did so: one line, or a screen when memory ran out. Valid until the
 * thread's next failure. */
const char* cistern_last_error(void);

/* Puts cistern under torch's tensors of a kind, "cpu", "cuda" or "pinned", with `configuration` as in CISTERN_CONF ("" for the
 * defaults); CISTERN_CONF itself is applied on top. torch has to be in the process. Fails when the kind is served by
 * cistern already. */
int cistern_install(const char* kind, const char* configuration);

/* Device memory without a plug: for programs of any kind, and for torch of any version, as
 *
 *   allocator = torch.cuda.memory.CUDAPluggableAllocator("libcistern_c_abi.so.0.1", "cistern_alloc_or_throw",
 *                                                        "cistern_free")
 *   torch.cuda.memory.change_current_allocator(allocator)        # for everything, before the first CUDA tensor, or
 *   pool = torch.cuda.MemPool(allocator.allocator())             # for what torch.cuda.use_mem_pool(pool) encloses
 *
 * The first call reads the options of CISTERN_CONF; from then on the functions below know the devices, as "cuda:0" ...
 * Fails where cistern's plug serves CUDA in the same process. `stream` is a cudaStream_t of that device: its work may
 * use the memory at once, and what is freed is given to that stream again without waiting. 0 bytes are NULL.
 *
 * In a child of fork, where CUDA cannot be used, allocations fail, and frees do nothing. */

/* NULL when it fails. torch does not look at NULL: give it cistern_alloc_or_throw. */
void* cistern_alloc(size_t bytes, int device, void* stream);

/* The same for callers in C++: throws a std::exception whose what() is the reason. torch makes a RuntimeError of it. */
void* cistern_alloc_or_throw(size_t bytes, int device, void* stream);

/* Requires the bytes, device and stream with which cistern_alloc gave the address. Other ones, and what was freed
 * before, lies inside a block or was never given, are told on stderr in one line; then the process ends, or with
 * misuse:report in CISTERN_CONF nothing else happens, and cistern_last_error says it again. Of NULL: nothing. */
void cistern_free(void* address, size_t bytes, int device, void* stream);

/* `stream`, of the same device, uses the block too: it is not given to anybody before the work that is queued there at
 * the time of its free is done. torch's pluggable allocator calls this only where its set_record_stream_fn was told. */
int cistern_record_stream(void* address, void* stream);

/* Bytes, unless it says count. Of each pair the first is now, the second the highest since cistern_reset_peak. */
struct cistern_stats {
  uint64_t requested, peak_requested; /* as asked by callers */
  uint64_t allocated, peak_allocated; /* granted: rounded up */
  uint64_t active, peak_active;       /* granted, or freed while a stream still uses it */
  uint64_t reserved, peak_reserved;   /* taken from the system or the device */
  uint64_t limit;                     /* UINT64_MAX when there is none */
  uint64_t largest_free;              /* the largest block that is free and has memory */
  uint64_t live_count;                /* blocks granted now */
  uint64_t allocation_count;          /* since the start */
  uint64_t grow_count;                /* of those, served only after growing, trimming or waiting */
  uint64_t failure_count;
  uint64_t source_call_count;         /* of the system or the driver: reserve, commit, decommit, unreserve */
};

/* Fills in the first `bytes` of the struct, sizeof(struct cistern_stats) as the caller knows it. */
int cistern_get_stats(const char* device, struct cistern_stats* stats, size_t bytes);

int cistern_reset_peak(const char* device);

/* Gives back idle memory until at most `keep_bytes` are reserved; NULL means every device. Where `returned_bytes` is
 * not NULL, it is told how much was given back. */
int cistern_trim(const char* device, uint64_t keep_bytes, uint64_t* returned_bytes);

/* "8GiB", "80%", or NULL for none. Gives back idle memory first; fails, changing nothing, below what is in use. */
int cistern_set_limit(const char* device, const char* limit);

/* Writes every segment and block as they are now to a file that PyTorch's memory visualiser reads
 * (torch/cuda/_memory_viz.py, pytorch.org/memory_viz). */
int cistern_snapshot(const char* device, const char* path);

/* One screen on stderr: what the memory of every device was like so far. */
void cistern_report(void);

#ifdef __cplusplus
}
#endif
#endif
