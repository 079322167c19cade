#!/usr/bin/env python3
"""The CUDA plug from Python under the unmodified wheel, over the preloaded fake runtime: torch's own statistics,
summaries, history and memory viewer on what cistern serves.

    c10_cuda_python_test.py <libcistern_c10_cuda.so>
"""
import ctypes
import os
import pickle
import sys
import tempfile
import threading

import torch
from torch.cuda import _memory_viz

MIB = 1 << 20


def install(library):
    plug = ctypes.CDLL(library)
    error = ctypes.create_string_buffer(1024)
    assert plug.cistern_install_c10_cuda(b"misuse:report", error, len(error)) == 0, error.value.decode()
    assert plug.cistern_install_c10_cuda(b"", error, len(error)) == 2, "served already"


def check_statistics(fake):
    sent = torch.arange(5 * MIB, dtype=torch.uint8)
    there = sent.cuda()
    view = there[MIB:].view(-1)
    assert torch.equal(view.cpu(), sent[MIB:])
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == 5 * MIB == torch.cuda.memory_allocated()
    assert stats["reserved_bytes.all.current"] == fake.fakecuda_used_bytes(0) == torch.cuda.memory_reserved()
    assert stats["reserved_bytes.all.current"] == 6 * MIB, "growth to the granule"
    assert stats["active.all.current"] == 1
    assert "cistern" == torch.cuda.get_allocator_backend()
    assert "Allocated memory" in torch.cuda.memory_summary()
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == 5 * MIB
    there.resize_(8 * MIB)
    assert torch.cuda.memory_allocated() == 8 * MIB
    del there, view
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    torch.cuda.empty_cache()
    assert fake.fakecuda_used_bytes(0) == 0


def check_record_stream():
    side = torch.cuda.Stream()
    tensor = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    tensor.record_stream(side)
    del tensor
    torch.cuda.synchronize()


def check_limit():
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
        raise AssertionError("100 MiB cannot fit into one percent of 4 GiB")
    except torch.OutOfMemoryError as error:
        assert "the limit of 40" in str(error), error
    torch.cuda.set_per_process_memory_fraction(1.0)


def check_pools():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    outside = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    (segment,) = pool.snapshot()
    assert segment["blocks"][0]["address"] == inside.data_ptr(), segment
    assert tuple(segment["segment_pool_id"]) == tuple(pool.id)
    del pool
    assert inside.data_ptr() != outside.data_ptr()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    graph.replay()
    del captured
    graph.reset()


def check_history_and_viewer():
    torch.cuda.memory._record_memory_history(stacks="python")
    with torch.no_grad():
        tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1000, 5 * MIB, 300, 7 * MIB)]
        del tensors[1], tensors[0]
    snapshot = torch.cuda.memory._snapshot()
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions.count("alloc") == 4 and actions.count("free_completed") == 2, actions

    alloc = next(entry for entry in snapshot["device_traces"][0] if entry["action"] == "alloc")
    assert any(frame["name"] == "check_history_and_viewer" for frame in alloc["frames"]), alloc
    assert snapshot["allocator_settings"]["expandable_segments"] is True
    total = sum(segment["total_size"] for segment in snapshot["segments"])
    assert total == torch.cuda.memory_reserved()
    for segment in snapshot["segments"]:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as file:
            loaded = pickle.load(file)
    for plot in (_memory_viz.segment_plot, _memory_viz.trace_plot):
        html = plot(loaded)
        assert "<html" in html or "<script" in html
    assert _memory_viz.segsum(loaded) and _memory_viz.trace(loaded)
    torch.cuda.memory._record_memory_history(enabled=None)
    del tensors


def check_other_thread():
    tensors = [torch.empty(MIB, dtype=torch.uint8, device=f"cuda:{index}") for index in (0, 1)]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    assert torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated(1) == 0


def main():
    fake = ctypes.CDLL("libcudart.so.13")
    fake.fakecuda_used_bytes.restype = ctypes.c_size_t
    fake.fakecuda_misuses.restype = ctypes.c_char_p
    install(sys.argv[1])
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    check_statistics(fake)
    check_record_stream()
    check_limit()
    check_pools()
    check_history_and_viewer()
    check_other_thread()
    torch.cuda.empty_cache()
    assert fake.fakecuda_misuses() == b"", fake.fakecuda_misuses().decode()


if __name__ == "__main__":
    main()
