#!/usr/bin/env python3
"""cistern-train as a user meets it: results, wrong input, limits, checkpoints, Ctrl-C. On a small made-up MNIST.

    train_test.py PROGRAM [arguments of unittest]

CISTERN_FAKE_CUDA says what to preload for a CUDA runtime without a GPU (tests/support/fake_cudart); TORCH_LIBRARIES where
torch's libraries are. Without them the program was built without CUDA, and what needs it is left out.
"""
import gzip
import json
import os
import pathlib
import pty
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
STRATEGIES = ["growth", "geometric", "preallocate", "system"]


def idx_images(count, draw, side=28):
    pixels = bytearray(count * side * side)
    labels = bytearray(count)
    for i in range(count):  # A digit is a bright square whose place says which one it is.
        labels[i] = draw.randrange(10)
        top, left = 2 + 12 * (labels[i] // 5) + draw.randrange(4), 5 * (labels[i] % 5) + draw.randrange(2)
        for row in range(top, top + 4):
            start = i * side * side + row * side + left
            pixels[start:start + 4] = bytes(draw.randrange(100, 256) for _ in range(4))
    return (struct.pack(">4I", 0x803, count, side, side) + bytes(pixels),
            struct.pack(">2I", 0x801, count) + bytes(labels))


def write_mnist(folder, train=640, test=200):
    draw = random.Random(7)
    for prefix, count in (("train", train), ("t10k", test)):
        images, labels = idx_images(count, draw)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


class TrainCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        self.data.mkdir()
        write_mnist(self.data)

    def command(self, *arguments):
        return [PROGRAM, "--data", str(self.data), "--epochs", "2", "--threads", "1", "--device", "cpu", *arguments]

    def run_program(self, *arguments, **environment):
        return subprocess.run(self.command(*arguments), cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=120,
                              env={**os.environ, "OMP_NUM_THREADS": "1", **environment})

    def train(self, *arguments, **environment):
        done = self.run_program("--json", *arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["runs"]

    def listing(self):
        return sorted(str(path) for path in self.folder.rglob("*"))

    def refuses(self, code, says, *arguments, lines=1, **environment):
        before = self.listing()
        done = self.run_program(*arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(done.stderr.count("\n"), lines, done.stderr)
        self.assertTrue(done.stderr.startswith("cistern-train: "), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(self.listing(), before, "something was left behind")
        return done.stderr


class Results(TrainCase):
    def test_every_strategy_and_thread_count_gives_the_same_weights_in_either_loop(self):
        for loop in ("tuned", "plain"):
            hashes = {strategy: self.train("--strategy", strategy, "--loop", loop)[0]["weights_sha256"]
                      for strategy in STRATEGIES}
            self.assertEqual(len(set(hashes.values())), 1, hashes)
        two = self.train("--loop", "tuned", "--threads", "2")[0]["weights_sha256"]
        self.assertEqual(two, self.train("--loop", "tuned", "--threads", "1")[0]["weights_sha256"])

    def test_a_seed_decides_the_weights(self):
        first, again, other = (self.train("--seed", seed)[0]["weights_sha256"] for seed in ("1", "1", "2"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_it_learns(self):
        run = self.train("--epochs", "15", "--lr", "0.005")[0]
        self.assertGreater(run["val_accuracy"], 0.9)
        self.assertLess(run["epoch_loss"][-1], run["epoch_loss"][0] / 2)

    def test_json_has_the_documented_fields_and_null_where_they_do_not_apply(self):
        ours, system = self.train("--compare", "growth,system")
        for run in (ours, system):
            self.assertLessEqual({"strategy", "val_accuracy", "val_loss", "epoch_seconds", "weights_sha256", "memory"},
                                 set(run))
            self.assertEqual(len(run["epoch_seconds"]), 2)
        counted = ["peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "source_calls",
                   "source_calls_after_first_epoch"]
        self.assertEqual([system["memory"][name] for name in counted], [None] * len(counted))
        memory = ours["memory"]
        self.assertGreater(memory["peak_requested_bytes"], 640 * 784 * 4)
        self.assertLessEqual(memory["peak_requested_bytes"], memory["peak_allocated_bytes"])
        self.assertLessEqual(memory["peak_allocated_bytes"], memory["peak_reserved_bytes"])
        self.assertEqual((ours["device"], [one["name"] for one in memory["memories"]]), ("cpu", ["host"]))
        self.assertEqual(memory["memories"][0]["peak_reserved_bytes"], memory["peak_reserved_bytes"])
        self.assertEqual(memory["memories"][0]["limit_bytes"], None)

    def test_compare_prints_a_row_a_strategy_and_finds_the_weights_identical(self):
        done = self.run_program("--compare", ",".join(STRATEGIES))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = done.stdout.splitlines()
        self.assertEqual([row.split()[0] for row in rows[1:5]], STRATEGIES)
        self.assertIn("bit-identical", done.stdout)

    def test_without_json_the_epochs_and_the_memory_report_are_on_stdout(self):
        done = self.run_program()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"Epoch 2/2\n20/20 - .*s - .*loss: .* - accuracy: .* - val_loss: .* - val_accuracy")
        for word in ("requested", "allocated", "reserved", "source calls", "served by", "time in the allocator"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("\r", done.stderr)  # No progress bar where nobody looks.

    def test_on_a_terminal_there_is_a_progress_bar(self):
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        subprocess.run(self.command("--json"), check=True, stdout=subprocess.DEVNULL, stderr=terminal, timeout=120)
        os.close(terminal)
        self.assertRegex(os.read(master, 1 << 16).decode(), r"\r\d+/20 \[=*>\.*\] - ETA: .*s - loss: .* - accuracy: ")

    def test_a_flag_wins_over_the_environment_and_the_environment_over_the_default(self):
        conf = {"CISTERN_CONF": "strategy:geometric"}
        self.assertEqual(self.train(**conf)[0]["strategy"], "geometric")
        self.assertEqual(self.train("--strategy", "growth", **conf)[0]["strategy"], "growth")

    def test_record_writes_a_trace_that_starts_like_one(self):
        self.train("--record", "run.trace")
        self.assertEqual((self.folder / "run.trace").read_bytes()[:8], b"CISTRACE")

    def test_preallocate_takes_what_it_is_told_at_once(self):
        memory = self.train("--strategy", "preallocate", "--preallocate", "64MiB")[0]["memory"]
        self.assertEqual(memory["peak_reserved_bytes"], 64 << 20)
        self.assertEqual(memory["source_calls_after_first_epoch"], 0)


class WrongCommandLine(TrainCase):
    def test_usage_errors_are_one_line_and_exit_2(self):
        for arguments, says in (
                (["--nonsense"], "--nonsense"), (["--limit", "banana"], "banana"), (["--limit", "512"], "512MiB"),
                (["--limit", "0.5%x"], "unit"), (["--limit", "-1GiB"], "negative"), (["--preallocate", "9e99"], "9e99"),
                (["--epochs", "0"], "--epochs"), (["--batch-size", "0"], "--batch-size"), (["--lr", "nan"], "nan"),
                (["--lr", "-1"], "-1"), (["--seed", "-1"], "--seed"), (["--threads", "0"], "--threads"),
                (["--device", "gpu"], "gpu"), (["--device", "cuda:x"], "cuda:x"), (["--strategy", "fast"], "fast"),
                (["--loop", "fast"], "fast"), (["--compare", "growth,fast"], "fast"),
                (["--compare", "growth,growth"], "twice"), (["--compare", "growth", "--record", "x"], "--compare"),
                (["--resume"], "--checkpoint"), (["--strategy", "system", "--limit", "1GiB"], "system")):
            with self.subTest(arguments=arguments):
                self.refuses(2, says, *arguments)

    def test_a_wrong_environment_is_a_usage_error_that_names_the_nearest_key(self):
        self.assertIn("'limt'", self.refuses(2, "limit", CISTERN_CONF="limt:1GiB"))
        self.refuses(2, "banana", CISTERN_CONF="limit:banana")

    def test_help_exits_0(self):
        self.assertEqual(self.run_program("--help").returncode, 0)

    def test_the_tuned_loop_is_for_the_cpu(self):
        self.refuses(2, "--loop plain", "--loop", "tuned", "--device", "cuda")
        done = self.run_program("--device", "auto", "--loop", "tuned", "--epochs", "1")
        self.assertEqual(done.returncode, 0)
        self.assertIn("device: cpu (the tuned loop is code for the CPU)", done.stderr)

    def test_cuda_without_a_gpu_is_one_line(self):
        self.refuses(1, "--device cpu", "--device", "cuda:0")

    def test_auto_without_a_gpu_falls_back_to_the_cpu_and_says_so(self):
        done = self.run_program("--device", "auto", "--epochs", "1")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"device: cpu \((no usable CUDA device|this build has no CUDA plug)")


@unittest.skipUnless("CISTERN_FAKE_CUDA" in os.environ, "built without CUDA")
class Cuda(TrainCase):
    """Up to the first convolution, which needs cuDNN and so a GPU; tests/gpu/training.py goes on from there."""

    def on_fake(self, *arguments, **environment):
        return self.run_program(*arguments, LD_PRELOAD=os.environ["CISTERN_FAKE_CUDA"], **environment)

    def reaches_the_first_step(self, done, device):
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        first, rest = done.stderr.split("\n", 1)
        self.assertEqual(first, f"device: {device}, 1 thread, plain loop")
        self.assertTrue(rest.startswith("cistern-train: "), rest)
        self.assertIn("cuDNN", rest)
        self.assertNotIn("frame #", rest)

    def test_the_device_asked_for_gets_the_data_and_the_plain_loop(self):
        self.reaches_the_first_step(self.on_fake("--device", "cuda"), "cuda:0 (as asked)")
        self.reaches_the_first_step(self.on_fake("--device", "cuda:1"), "cuda:1 (as asked)")
        self.reaches_the_first_step(self.on_fake("--device", "cuda", "--strategy", "system"), "cuda:0 (as asked)")
        self.reaches_the_first_step(self.on_fake("--device", "cuda", "--strategy", "preallocate"), "cuda:0 (as asked)")

    def test_auto_takes_the_first_device_there_is(self):
        self.reaches_the_first_step(self.on_fake("--device", "auto"), "cuda:0 (found)")

    def test_a_device_out_of_range_is_one_line(self):
        done = self.on_fake("--device", "cuda:2")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "cistern-train: --device cuda:2: there are 2 CUDA devices, counted from 0; "
                                      "use --device cpu\n")

    def test_a_driver_without_a_device_is_one_line_and_auto_trains_on_the_cpu(self):
        done = self.on_fake("--device", "cuda", FAKE_CUDART_DEVICES="0")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("no usable CUDA device", done.stderr)
        done = self.on_fake("--device", "auto", "--epochs", "1", FAKE_CUDART_DEVICES="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("device: cpu (no usable CUDA device", done.stderr)

    def test_a_torch_without_its_cuda_part_is_one_line_and_auto_trains_on_the_cpu(self):
        libraries = self.folder / "lib"
        libraries.mkdir()
        for library in pathlib.Path(os.environ["TORCH_LIBRARIES"]).glob("*.so*"):
            if library.name != "libtorch_cuda.so":
                (libraries / library.name).symlink_to(library)
        cpu_only = {"LD_LIBRARY_PATH": str(libraries)}
        done = self.on_fake("--device", "cuda", **cpu_only)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(f"{libraries}/libtorch_cuda.so is not there", done.stderr)
        done = self.on_fake("--device", "auto", "--epochs", "1", **cpu_only)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("device: cpu (this torch has no CUDA part", done.stderr)

    def test_a_limit_is_the_devices(self):
        done = self.on_fake("--device", "cuda", "--limit", "1MiB")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        for word in ("device 0", "asked", "limit", "what would help"):
            self.assertIn(word, done.stderr)
        self.assertNotIn("frame #", done.stderr)
        self.reaches_the_first_step(self.on_fake("--device", "cuda", "--limit", "64MiB"), "cuda:0 (as asked)")

    def test_record_writes_the_devices_trace(self):
        self.reaches_the_first_step(self.on_fake("--device", "cuda", "--record", "run.trace"), "cuda:0 (as asked)")
        self.assertEqual((self.folder / "run.trace.cuda:0").read_bytes()[:8], b"CISTRACE")

    def test_a_checkpoint_of_the_tuned_loop_goes_on_on_the_cpu_only(self):
        self.train("--epochs", "1", "--loop", "tuned", "--checkpoint", "saved")
        done = self.on_fake("--device", "cuda", "--checkpoint", "saved", "--resume")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("--device cpu", done.stderr)


class WrongData(TrainCase):
    def damage(self, name, change):
        path = self.data / name
        path.write_bytes(change(path.read_bytes()))

    def test_no_directory_an_empty_one_and_a_missing_file(self):
        self.refuses(1, "nowhere", "--data", str(self.folder / "nowhere"))
        (self.folder / "empty").mkdir()
        self.refuses(1, "train-images-idx3-ubyte", "--data", str(self.folder / "empty"))
        (self.data / "t10k-labels-idx1-ubyte.gz").unlink()
        self.refuses(1, "t10k-labels-idx1-ubyte")

    def test_a_truncated_file(self):
        self.damage("train-images-idx3-ubyte", lambda data: data[:-100])
        self.refuses(1, "cut short")

    def test_a_header_cut_short_and_an_empty_file(self):
        for length in (0, 3, 9):
            self.damage("train-images-idx3-ubyte", lambda data: data[:length])
            self.refuses(1, "train-images-idx3-ubyte")

    def test_more_data_than_promised(self):
        self.damage("train-images-idx3-ubyte", lambda data: data + b"x")
        self.refuses(1, "more bytes")

    def test_a_wrong_magic_number(self):
        self.damage("train-images-idx3-ubyte", lambda data: b"\0\0\x08\x01" + data[4:])
        self.refuses(1, "2049, not 2051")

    def test_a_header_that_promises_absurd_sizes(self):
        for header in (struct.pack(">4I", 0x803, 0xffffffff, 28, 28), struct.pack(">4I", 0x803, 640, 0, 28),
                       struct.pack(">4I", 0x803, 640, 28, 0xffffffff)):
            self.damage("train-images-idx3-ubyte", lambda data: header + data[16:])
            self.refuses(1, "promises")

    def test_images_of_another_size(self):
        images, _ = idx_images(640, random.Random(1), side=32)
        self.damage("train-images-idx3-ubyte", lambda data: images)
        self.refuses(1, "32x32")

    def test_a_label_out_of_range(self):
        self.damage("train-labels-idx1-ubyte.gz",
                    lambda data: gzip.compress(gzip.decompress(data)[:100] + b"\x0a" + gzip.decompress(data)[101:]))
        self.refuses(1, "label 92 is 10")

    def test_labels_and_images_that_differ_in_number(self):
        self.damage("t10k-labels-idx1-ubyte.gz",
                    lambda data: gzip.compress(struct.pack(">2I", 0x801, 199) + gzip.decompress(data)[8:-1]))
        self.refuses(1, "199 labels for the 200 images")

    def test_a_corrupt_and_a_truncated_gzip(self):
        whole = (self.data / "train-labels-idx1-ubyte.gz").read_bytes()
        middle = len(whole) // 2
        for broken in (whole[:middle] + bytes(b ^ 0x55 for b in whole[middle:middle + 20]) + whole[middle + 20:],
                       whole[:middle], whole[:-6]):
            self.damage("train-labels-idx1-ubyte.gz", lambda data: broken)
            self.refuses(1, "train-labels-idx1-ubyte.gz")


class Limits(TrainCase):
    def test_a_limit_below_the_need_is_one_screen_and_leaves_nothing_behind(self):
        for loop in ("tuned", "plain"):
            before = self.listing()
            done = self.run_program("--limit", "2MiB", "--loop", loop, "--checkpoint", "saved", "--batch-size", "128")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            for word in ("asked", "largest free", "reserved", "limit", "largest holders", "what would help"):
                self.assertIn(word, done.stderr)
            self.assertLessEqual(done.stderr.count("\n"), 24, done.stderr)
            self.assertNotIn("frame #", done.stderr)
            self.assertNotIn("Exception raised", done.stderr)
            self.assertEqual(self.listing(), before)

    def test_a_sufficient_limit_is_kept_and_changes_no_weight(self):
        free, limited = self.train()[0], self.train("--limit", "24MiB")[0]
        self.assertLessEqual(limited["memory"]["peak_reserved_bytes"], 24 << 20)
        self.assertEqual(free["weights_sha256"], limited["weights_sha256"])


    def test_at_no_instant_is_more_committed_than_the_limit(self):
        for limit, code in ((64 << 20, 0), (4 << 20, 1)):
            done = self.run_program("--limit", f"{limit}B", "--loop", "plain", "--record", "run.trace")
            self.assertEqual(done.returncode, code, done.stderr)
            trace = (self.folder / "run.trace").read_bytes()
            records = sorted(struct.iter_unpack("<6QIHBB", trace[64:-56]))  # By sequence number.
            committed, peak = 0, 0
            for _, _, size, _, _, _, _, _, _, kind in records:
                committed += {10: size, 11: -size}.get(kind, 0)  # Commit and decommit: core/event.hpp.
                peak = max(peak, committed)
            self.assertGreater(peak, 0)
            self.assertLessEqual(peak, limit)


class Checkpoints(TrainCase):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "saved" / "checkpoint.safetensors"

    def save(self, *arguments):
        return self.train("--checkpoint", "saved", *arguments)

    def test_resume_is_bit_for_bit_the_uninterrupted_run(self):
        for loop in ("tuned", "plain"):
            folder = "saved-" + loop
            whole = self.train("--epochs", "4", "--loop", loop)[0]
            self.train("--epochs", "1", "--loop", loop, "--checkpoint", folder)
            self.train("--epochs", "3", "--checkpoint", folder, "--resume")
            resumed = self.train("--epochs", "4", "--checkpoint", folder, "--resume")[0]
            self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])
            self.assertEqual(resumed["epoch_loss"], whole["epoch_loss"][3:])
            self.assertEqual(resumed["val_loss"], whole["val_loss"])

    def interrupt_in_the_middle(self, signal_number, *arguments):
        process = subprocess.Popen(self.command(*arguments), cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, universal_newlines=True)
        for line in process.stdout:
            if line.startswith("Epoch 2"):
                break
        process.send_signal(signal_number)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors

    def test_ctrl_c_saves_and_resuming_gives_the_uninterrupted_weights(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            folder, epochs = f"saved-{number}", ["--epochs", "60"]
            code, errors = self.interrupt_in_the_middle(number, "--checkpoint", folder, *epochs)
            self.assertEqual(code, 128 + number, errors)
            self.assertIn("--resume --checkpoint " + folder, errors)
            resumed = self.train("--checkpoint", folder, "--resume", *epochs)[0]
            whole = self.train(*epochs)[0]
            self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])
            self.assertEqual(resumed["epoch_loss"], whole["epoch_loss"][-len(resumed["epoch_loss"]):])

    def test_ctrl_c_without_a_checkpoint_says_that_nothing_was_saved(self):
        code, errors = self.interrupt_in_the_middle(signal.SIGINT, "--epochs", "60")
        self.assertEqual(code, 130)
        self.assertIn("nothing was saved", errors)

    def test_resuming_a_finished_run_reports_its_result(self):
        first = self.save()[0]
        again = self.save("--resume")[0]
        self.assertEqual(again["weights_sha256"], first["weights_sha256"])
        self.assertEqual((again["val_loss"], again["epoch_seconds"]), (first["val_loss"], []))

    def test_an_existing_checkpoint_is_not_overwritten_by_accident(self):
        self.save()
        self.refuses(1, "--resume", "--checkpoint", "saved")

    def test_options_that_would_change_the_bits_are_refused_on_resume(self):
        self.save()
        for flag, value in (("--batch-size", "64"), ("--lr", "0.5"), ("--seed", "9"), ("--loop", "plain"),
                            ("--threads", "2")):
            self.refuses(1, flag, "--checkpoint", "saved", "--resume", flag, value)

    def test_resume_without_a_checkpoint(self):
        self.refuses(1, "checkpoint.safetensors", "--checkpoint", "nothing", "--resume")

    def test_a_directory_that_cannot_be_made(self):
        (self.folder / "file").write_text("x")
        self.refuses(1, "file/saved", "--checkpoint", "file/saved")
        self.refuses(1, "file", "--checkpoint", "file")
        self.refuses(1, "/proc/saved", "--checkpoint", "/proc/saved")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_directory_that_cannot_be_written(self):
        (self.folder / "locked").mkdir(mode=0o500)
        self.refuses(1, "locked", "--checkpoint", "locked")

    def test_truncated_damaged_and_foreign_files(self):
        self.save()
        whole = self.file.read_bytes()
        length = struct.unpack("<Q", whole[:8])[0]
        flipped = bytearray(whole)
        flipped[-5] ^= 1
        for content, says in ((b"", "safetensors"), (whole[:5], "safetensors"), (whole[:200], "cut short"),
                              (whole[:-1000], "cut short"), (bytes(flipped), "damaged"),
                              (b"\xff" * 64, "safetensors"), (struct.pack("<Q", 2) + b"[]", "safetensors"),
                              (whole.replace(b"mnist_cnn", b"res_net50"), "model"),
                              (whole.replace(b"cistern-train 2", b"cistern-train 9"), "cistern-train 9"),
                              (whole.replace(b"adam.first.conv.bias", b"adam.first.conv.bibs"), "adam.first.conv.bias"),
                              (whole[:8] + whole[8:8 + length].replace(b"F32", b"F99") + whole[8 + length:], "type")):
            self.file.write_bytes(content)
            self.refuses(1, says, "--checkpoint", "saved", "--resume")

    def test_a_checkpoint_of_another_model_in_valid_format(self):
        header = json.dumps({"__metadata__": {"model": "LeNet"},
                             "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        self.file.parent.mkdir()
        self.file.write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
        self.refuses(1, "LeNet", "--checkpoint", "saved", "--resume")

    def test_no_temporary_file_remains(self):
        self.save()
        self.assertEqual(os.listdir(self.folder / "saved"), ["checkpoint.safetensors"])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
