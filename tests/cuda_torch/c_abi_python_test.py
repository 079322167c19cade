#!/usr/bin/env python3
"""The C interface as torch's pluggable allocator, under the unmodified wheel over the preloaded fake runtime.

    c_abi_python_test.py <libcistern_c_abi.so> pluggable|pool

pluggable: for every CUDA tensor of the process. pool: for what use_mem_pool encloses, beside torch's own allocator.
"""
import ctypes
import gc
import sys

import torch

MIB = 1 << 20


class Stats(ctypes.Structure):
    """struct cistern_stats of allocator/cistern/adapters/c_abi/cistern.h."""
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "requested", "peak_requested", "allocated", "peak_allocated", "active", "peak_active", "reserved",
        "peak_reserved", "limit", "largest_free", "live_count", "allocation_count", "grow_count", "failure_count",
        "source_call_count")]


class Cistern:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.cistern_last_error.restype = ctypes.c_char_p

    def check(self, outcome):
        assert outcome == 0, self.library.cistern_last_error().decode()

    def stats(self, device=b"cuda:0"):
        stats = Stats()
        self.check(self.library.cistern_get_stats(device, ctypes.byref(stats), ctypes.c_size_t(ctypes.sizeof(stats))))
        return stats

    def trim(self, device=b"cuda:0"):
        returned = ctypes.c_uint64()
        self.check(self.library.cistern_trim(device, ctypes.c_uint64(0), ctypes.byref(returned)))
        return returned.value


def refusal(bytes_):
    try:
        torch.empty(bytes_, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        return str(error)
    raise AssertionError(f"{bytes_} bytes cannot be there")


def check_pluggable(cistern, fake, allocator):
    torch.cuda.memory.change_current_allocator(allocator)
    record = ctypes.cast(cistern.library.cistern_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(record)

    sent = torch.arange(5 * MIB, dtype=torch.uint8)
    there = sent.cuda()
    assert torch.equal(there[MIB:].cpu(), sent[MIB:])
    assert cistern.stats().requested == 5 * MIB
    assert cistern.stats().reserved == fake.fakecuda_used_bytes(0) == 6 * MIB, "growth to the granule"
    other = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda:1")
    assert cistern.stats(b"cuda:1").requested == 3 * MIB

    address = there.data_ptr()
    side = torch.cuda.Stream()
    handle = ctypes.c_void_p(side.cuda_stream)
    fake.fakecuda_hold(handle)
    fake.fakecuda_touch(handle, ctypes.c_void_p(address), ctypes.c_size_t(5 * MIB))
    there.record_stream(side)
    del there
    again = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    assert again.data_ptr() != address, "the held stream still uses it"
    fake.fakecuda_release(handle)
    del again
    assert cistern.stats().requested == 0

    text = refusal(5 << 30)
    assert "cistern: out of memory on device 0 (vmm)" in text and "largest free" in text, text
    cistern.check(cistern.library.cistern_set_limit(b"cuda:0", b"64MiB"))
    assert "the limit of 64 MiB" in refusal(100 * MIB)
    torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
    assert cistern.stats().failure_count == 2

    del other
    cistern.trim()
    cistern.trim(b"cuda:1")
    assert fake.fakecuda_used_bytes(0) == fake.fakecuda_used_bytes(1) == 0


def check_pool(cistern, fake, allocator):
    before = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.empty(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
        text = refusal(5 << 30)
    assert "cistern: out of memory on device 0 (vmm)" in text, text
    after = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    stats = cistern.stats()
    # torch asks for whole segments, and cuts them itself.
    assert stats.requested == sum(segment["total_size"] for segment in pool.snapshot()) >= 32 * MIB, stats.requested
    assert stats.failure_count >= 1
    native = torch.cuda.memory_reserved() - stats.requested
    assert native + stats.reserved == fake.fakecuda_used_bytes(0), "nothing of torch's own is ours"

    del inside, before, after
    del pool
    gc.collect()
    torch.cuda.empty_cache()
    assert cistern.stats().requested == 0, "every segment came back, as it was given"
    assert cistern.trim() > 0
    assert fake.fakecuda_used_bytes(0) == 0


def main():
    path, what = sys.argv[1:]
    fake = ctypes.CDLL("libcudart.so.13")
    fake.fakecuda_used_bytes.restype = ctypes.c_size_t
    fake.fakecuda_misuses.restype = ctypes.c_char_p
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "cistern_alloc_or_throw", "cistern_free")
    {"pluggable": check_pluggable, "pool": check_pool}[what](Cistern(path), fake, allocator)
    assert fake.fakecuda_misuses() == b"", fake.fakecuda_misuses().decode()


if __name__ == "__main__":
    main()
