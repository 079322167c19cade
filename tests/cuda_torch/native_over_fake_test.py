#!/usr/bin/env python3
"""torch's own allocator from Python over the preloaded fake runtime: statistics and snapshot, printed and judged."""
import ctypes
import json

import torch

MIB = 1 << 20


def main():
    fake = ctypes.CDLL("libcudart.so.13")
    fake.fakecuda_used_bytes.restype = ctypes.c_size_t
    fake.fakecuda_live_text.restype = ctypes.c_char_p
    fake.fakecuda_misuses.restype = ctypes.c_char_p

    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    torch.cuda.memory._record_memory_history()
    sent = torch.arange(5 * MIB, dtype=torch.uint8)
    there = sent.cuda()
    assert torch.equal(there.cpu(), sent)

    stats = torch.cuda.memory_stats()
    print(json.dumps(stats, indent=1))
    assert stats["allocated_bytes.all.current"] == 5 * MIB
    assert stats["reserved_bytes.all.current"] == fake.fakecuda_used_bytes(0) == 20 * MIB

    snapshot = torch.cuda.memory._snapshot()
    print(json.dumps(snapshot["segments"], indent=1, default=str))
    (segment,) = snapshot["segments"]
    assert segment["total_size"] == 20 * MIB
    assert f"device memory {segment['address']:#x} {20 * MIB}" in fake.fakecuda_live_text().decode()
    assert [entry["action"] for entry in snapshot["device_traces"][0]] == ["segment_alloc", "alloc"]

    try:
        torch.empty(5 << 30, dtype=torch.uint8, device="cuda")
        raise AssertionError("5 GiB cannot fit into 4")
    except torch.OutOfMemoryError as error:
        assert "Tried to allocate 5.00 GiB" in str(error)

    del there
    torch.cuda.empty_cache()
    assert fake.fakecuda_used_bytes(0) == 0
    assert fake.fakecuda_misuses() == b"", fake.fakecuda_misuses().decode()


if __name__ == "__main__":
    main()
