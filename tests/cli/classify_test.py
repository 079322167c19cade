#!/usr/bin/env python3
"""cistern-classify as a user meets it: results, broken images, wrong weights, lists, services, memory.

    classify_test.py PROGRAM [arguments of unittest]

The weights and pictures are those in weights/; ImageNet's, where tools/convert and the shared data are.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from pictures import grey_png, png

PROGRAM = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
WEIGHTS = ROOT / "weights" / "fashion_mnist.safetensors"
MNIST_WEIGHTS = ROOT / "weights" / "mnist_cnn.safetensors"
PICTURES = sorted((ROOT / "weights" / "fashion_mnist").glob("*.png"))
LABELS = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
SHARED = pathlib.Path(os.environ.get("CISTERN_SHARED_DATA", ROOT.parent / "shared" / "data")) / "mobilenet_v2"


class ClassifyCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, *arguments):
        return [PROGRAM, "--threads", "1", "--device", "cpu", *map(str, arguments)]

    def run_program(self, *arguments, stdin=None, **environment):
        return subprocess.run(self.command(*arguments), cwd=self.folder, input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=120,
                              env={**os.environ, "OMP_NUM_THREADS": "1", **environment})

    def classify(self, *arguments, code=0, **more):
        """The objects for the images, and the summary."""
        done = self.run_program("--json", *arguments, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return lines[:-1], lines[-1]["summary"]

    def refuses(self, code, says, *arguments, **environment):
        done = self.run_program(*arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("cistern-classify: "), done.stderr)
        self.assertIn(says, done.stderr)

    def write(self, name, content):
        (self.folder / name).write_bytes(content)
        return name


class Results(ClassifyCase):
    def test_the_shipped_weights_know_nine_of_the_ten_shipped_pictures_or_more(self):
        self.assertEqual(len(PICTURES), 10)
        images, summary = self.classify(*PICTURES)
        right = [image["top"][0]["label"] == label for image, label in zip(images, LABELS)]
        self.assertGreaterEqual(sum(right), 9, images)
        self.assertEqual((summary["images"], summary["broken"]), (10, 0))
        self.assertEqual(pathlib.Path(summary["weights"]).name, WEIGHTS.name)

    def test_the_mnist_weights_know_a_digit(self):
        rows = [bytearray(28) for _ in range(28)]
        for row in rows[4:24]:
            row[13:16] = b"\xff" * 3  # A one.
        self.write("one.png", png(28, 28, rows))
        images, _ = self.classify("--weights", MNIST_WEIGHTS, "one.png")
        self.assertEqual(images[0]["top"][0]["label"], "1")

    def test_probabilities_are_sorted_and_top_says_how_many(self):
        images, _ = self.classify("--top", "3", PICTURES[0])
        probabilities = [guess["probability"] for guess in images[0]["top"]]
        self.assertEqual(probabilities, sorted(probabilities, reverse=True))
        self.assertEqual(len(probabilities), 3)
        everything, _ = self.classify("--top", "1000", PICTURES[0])
        self.assertAlmostEqual(sum(guess["probability"] for guess in everything[0]["top"]), 1.0, places=5)
        self.assertEqual(len(everything[0]["top"]), 10)

    def test_neither_batch_nor_strategy_nor_threads_change_what_is_seen(self):
        def seen(*arguments):
            images, _ = self.classify(*arguments, *PICTURES)
            return [(image["image"], image["top"][0]["label"], round(image["top"][0]["probability"], 4))
                    for image in images]
        wanted = seen()
        for arguments in (["--batch", "1"], ["--batch", "3"], ["--batch", "64"], ["--strategy", "geometric"],
                          ["--strategy", "preallocate", "--preallocate", "64MiB"], ["--strategy", "system"],
                          ["--threads", "2"], ["--limit", "64MiB"]):
            self.assertEqual(seen(*arguments), wanted, arguments)

    def test_text_is_a_table_an_image_then_speed_and_memory(self):
        done = self.run_program("--top", "2", PICTURES[9])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^\S+\.png\n +[01]\.\d{4}  Ankle boot\n +0\.\d{4}  \S+.*\n\n1 image in ")
        for word in ("images/s", "requested", "reserved", "after the first batch: 0", "peak resident memory"):
            self.assertIn(word, done.stdout)

    def test_the_size_of_a_picture_and_the_way_it_is_made_small_are_free(self):
        self.write("large.png", grey_png(300, 200))
        for resize in ("bilinear", "antialias", "crop"):
            images, _ = self.classify("--resize", resize, "large.png")
            self.assertEqual(len(images[0]["top"]), 5)

    def test_labels_can_be_given(self):
        self.write("labels", b"".join(b"label %d\r\n" % i for i in range(10)))
        images, _ = self.classify("--labels", "labels", PICTURES[9])
        self.assertEqual(images[0]["top"][0]["label"], "label 9")

    def test_names_that_are_not_utf8_come_through(self):
        name = os.fsencode(self.folder) + b"/\xff.png"
        with open(name, "wb") as file:
            file.write(grey_png(28, 9))
        images, _ = self.classify(self.folder)
        self.assertEqual(len(images), 1)

    @unittest.skipUnless(SHARED.exists() and (ROOT / ".venv-convert").exists(), "no ImageNet weights to convert")
    def test_imagenet_pictures_are_as_the_reference_says(self):
        weights = self.folder / "imagenet.safetensors"
        published = SHARED / "slim_mobilenet_v2_1.0_224_folded.npz"
        subprocess.run([ROOT / "tools" / "convert", published, weights], check=True, stdout=subprocess.DEVNULL)
        images, _ = self.classify("--weights", weights, SHARED / "images")
        reference = json.loads((SHARED / "reference" / "reference.json").read_text())
        self.assertEqual(len(images), len(reference))
        for image in images:
            index, synonyms, probability, _ = reference[pathlib.Path(image["image"]).stem]["top5"][0]
            best = image["top"][0]
            self.assertEqual(best["index"], index)
            self.assertTrue(synonyms.startswith(best["label"]), best)
            self.assertLess(abs(best["probability"] - probability), 0.01)


class BrokenImages(ClassifyCase):
    def setUp(self):
        super().setUp()
        whole = PICTURES[0].read_bytes()
        self.write("b_empty.png", b"")
        self.write("b_text.jpg", b"this is no image\n")
        self.write("b_cut.png", whole[:len(whole) // 2])
        self.write("b_flipped.png", whole[:60] + bytes(255 - byte for byte in whole[60:80]) + whole[80:])
        self.write("b_bomb.png", png(60000, 60000))
        bomb = struct.pack("<I2i2H", 40, 2 ** 31 - 1, -2 ** 31, 1, 24)
        self.write("b_bomb.bmp", b"BM" + bytes(12) + bomb + bytes(28))
        self.write("b_jpeg.jpg", b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03" + bytes(64))
        self.write("b_none.png", png(0, 5))
        self.write("b_promise.png", png(5000, 5000))  # Small enough to be decoded, and nothing in it.
        (self.folder / "b_link.png").symlink_to("nowhere")
        self.broken = sorted(path.name for path in self.folder.iterdir())
        shutil.copy(PICTURES[0], self.folder / "a.png")
        shutil.copy(PICTURES[9], self.folder / "z.png")

    def test_each_is_one_line_the_rest_goes_on_and_the_exit_code_says_so(self):
        for batch in ("1", "4", "64"):
            done = self.run_program("--json", "--batch", batch, self.folder)
            self.assertEqual(done.returncode, 1)
            lines = done.stderr.splitlines()
            self.assertEqual(len(lines), len(self.broken), done.stderr)
            for name, line in zip(self.broken, lines):
                self.assertTrue(line.startswith(f"cistern-classify: {self.folder}/{name}: "), line)
            objects = [json.loads(line) for line in done.stdout.splitlines()]
            whole = [pathlib.Path(one["image"]).name for one in objects[:-1] if "top" in one]
            self.assertEqual(whole, ["a.png", "z.png"])
            self.assertEqual(sum("error" in one for one in objects), len(self.broken))
            self.assertEqual(objects[-1]["summary"]["broken"], len(self.broken))

    def test_a_decompression_bomb_takes_no_memory(self):
        _, quiet = self.classify("a.png")
        _, bombed = self.classify("a.png", "b_bomb.png", "b_bomb.bmp", "b_jpeg.jpg", code=1)
        grown = bombed["memory"]["peak_rss_bytes"] - quiet["memory"]["peak_rss_bytes"]
        self.assertLess(grown, 32 << 20)

    def test_what_is_no_file_is_refused_and_not_waited_for(self):
        os.mkfifo(self.folder / "pipe.png")
        for name, says in (("missing.png", "No such file"), ("pipe.png", "no regular file"),
                           ("/dev/zero", "no regular file")):
            images, _ = self.classify(name, "a.png", code=1)
            self.assertIn(says, images[0]["error"])
            self.assertIn("top", images[1])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_an_unreadable_image_is_named(self):
        (self.folder / "a.png").chmod(0)
        images, _ = self.classify("a.png", "z.png", code=1)
        self.assertIn("a.png: cannot be read: Permission denied", images[0]["error"])

    def test_a_folder_without_images_or_that_is_not_there(self):
        (self.folder / "hollow").mkdir()
        self.refuses(1, "hollow: holds no image", "hollow")
        self.refuses(1, "hollow", "hollow", "a.png")


class WrongWeights(ClassifyCase):
    def setUp(self):
        super().setUp()
        self.whole = WEIGHTS.read_bytes()
        self.length = struct.unpack("<Q", self.whole[:8])[0]
        self.header = json.loads(self.whole[8:8 + self.length])
        self.data = self.whole[8 + self.length:]

    def with_header(self, change):
        header = json.loads(json.dumps(self.header))
        header["__metadata__"].pop("sha256")  # Allowed, and else all that follows would be damage.
        change(header)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + self.data

    def with_card(self, **values):
        def change(header):
            card = json.loads(header["__metadata__"]["cistern"])
            card.update(values)
            header["__metadata__"]["cistern"] = json.dumps(card)
        return self.with_header(change)

    def says(self, content, says):
        self.write("w.safetensors", content)
        self.refuses(1, says, "--weights", "w.safetensors", PICTURES[0])

    def test_files_that_are_damaged(self):
        flipped = bytearray(self.whole)
        flipped[-100] ^= 1
        for content, says in ((b"", "safetensors"), (self.whole[:6], "safetensors"), (self.whole[:100], "cut short"),
                              (self.whole[:-1000], "cut short"), (bytes(flipped), "sha256"),
                              (b"\xff" * 99, "safetensors")):
            self.says(content, says)
        self.refuses(1, "No such file", "--weights", "missing", PICTURES[0])
        self.refuses(1, "", "--weights", self.folder, PICTURES[0])

    def test_tensors_that_are_missing_or_have_another_shape(self):
        name = "classifier.1.bias"
        nothing = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        self.says(self.with_header(lambda header: header.update(other=header.pop(name))), "lacks the tensor " + name)
        self.says(self.with_header(lambda header: header[name].update(shape=[2, 5])), name)
        self.says(self.with_header(lambda header: header.update(extra=nothing)), "extra")
        self.says(self.with_card(width=0.5), "shape")

    def test_offsets_and_lengths_that_are_hostile(self):
        name = "classifier.1.bias"
        for offsets, shape in (([0, 2 ** 63], [2 ** 61]), ([-8, 32], [10]), ([2 ** 64 - 40, 0], [10]), ([40, 0], [10]),
                               ([0, 40], [10, -1]), ([0, 40], [2 ** 33, 2 ** 33]), ("x", [10]), ([0], [10])):
            self.says(self.with_header(lambda header: header[name].update(data_offsets=offsets, shape=shape)),
                      "w.safetensors")
        for length in (2 ** 64 - 1, 2 ** 40, 2 ** 24, len(self.whole)):
            self.says(struct.pack("<Q", length) + self.whole[8:], "w.safetensors")
        self.says(struct.pack("<Q", 200_000) + b"[" * 200_000, "safetensors")

    def test_cards_that_say_nothing_or_nonsense(self):
        self.says(self.with_header(lambda header: header["__metadata__"].pop("cistern")), "card")
        self.says(self.with_card(model="resnet50"), "model")
        self.says(self.with_card(labels=["one"]), "labels")
        self.says(self.with_card(preprocessing={"size": 28}), "channels")
        self.says(self.with_card(classes=10 ** 9), "classes")

    def test_labels_of_the_wrong_number(self):
        self.write("nine", b"x\n" * 9)
        self.write("eleven", b"x\n" * 11)
        self.refuses(1, "nine: has 9 lines; the weights tell 10 classes apart", "--labels", "nine", PICTURES[0])
        self.refuses(1, "eleven: has more lines", "--labels", "eleven", PICTURES[0])
        self.refuses(1, "missing", "--labels", "missing", PICTURES[0])


class Usage(ClassifyCase):
    def test_usage_errors_are_one_line_and_exit_2(self):
        for arguments, says in (
                ([], "nothing to classify"), (["--nonsense"], "--nonsense"), (["--top", "0", "x"], "--top"),
                (["--batch", "0", "x"], "--batch"), (["--threads", "0", "x"], "--threads"),
                (["--resize", "fast", "x"], "fast"), (["--device", "gpu", "x"], "gpu"), (["-", "-"], "twice"),
                (["--watch", ".", "x"], "--watch"), (["--limit", "512", "x"], "512MiB"),
                (["--strategy", "system", "--limit", "1GiB", "x"], "system")):
            with self.subTest(arguments=arguments):
                self.refuses(2, says, *arguments)
        self.refuses(2, "limt", "x", CISTERN_CONF="limt:1GiB")

    def test_a_limit_below_the_need_is_one_screen(self):
        done = self.run_program("--limit", "2MiB", PICTURES[0])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        for word in ("asked", "largest free", "limit", "what would help"):
            self.assertIn(word, done.stderr)
        self.assertLessEqual(done.stderr.count("\n"), 24, done.stderr)
        self.assertNotIn("frame #", done.stderr)

    def test_cuda_without_a_gpu_is_one_line(self):
        done = subprocess.run([PROGRAM, "--device", "cuda", str(PICTURES[0])], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("--device cpu", done.stderr)


class ListsAndServices(ClassifyCase):
    def start(self, *arguments):
        process = subprocess.Popen(self.command("--json", *arguments), cwd=self.folder, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        guard = threading.Timer(60, process.kill)
        guard.start()
        self.addCleanup(guard.cancel)
        return process

    def end(self, process, number):
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(output.splitlines()[-1])["summary"]

    def test_a_list_and_stdin_name_images(self):
        names = "\n".join(map(str, PICTURES[:3])) + "\n\n" + str(PICTURES[3])
        self.write("list.txt", names.encode())
        self.assertEqual([one["image"] for one in self.classify("list.txt")[0]], list(map(str, PICTURES[:4])))
        self.assertEqual(self.classify("list.txt")[0], self.classify("-", stdin=names)[0])
        both, _ = self.classify(PICTURES[5], "list.txt", PICTURES[6])
        self.assertEqual([one["image"] for one in both], list(map(str, [PICTURES[5], *PICTURES[:4], PICTURES[6]])))
        self.refuses(1, "missing.txt", "missing.txt")
        self.write("long.txt", b"x" * 200_000)
        done = self.run_program("long.txt")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("one path a line", done.stderr)

    def test_stdin_is_answered_as_it_comes(self):
        process = self.start("-")
        for picture in PICTURES[:3]:
            process.stdin.write(f"{picture}\n")
            process.stdin.flush()
            self.assertEqual(json.loads(process.stdout.readline())["image"], str(picture))
        self.assertEqual(self.end(process, signal.SIGINT)["images"], 3)

    def test_a_watched_folder_is_served_until_it_is_told_to_stop(self):
        served = self.folder / "served"
        served.mkdir()
        shutil.copy(PICTURES[0], served / "there.png")
        process = self.start("--watch", "served")
        self.assertEqual(json.loads(process.stdout.readline())["image"], "served/there.png")
        (served / "ignored.txt").write_text("no image")
        shutil.copy(PICTURES[1], served / "written.png")
        self.assertEqual(json.loads(process.stdout.readline())["image"], "served/written.png")
        shutil.copy(PICTURES[2], self.folder / "moved.png")
        (self.folder / "moved.png").rename(served / "moved.png")
        self.assertEqual(json.loads(process.stdout.readline())["image"], "served/moved.png")
        self.assertEqual(self.end(process, signal.SIGTERM)["images"], 3)

    def test_a_folder_that_cannot_be_watched_or_goes_away(self):
        self.refuses(1, "nowhere: is no folder", "--watch", "nowhere")
        (self.folder / "served").mkdir()
        process = self.start("--watch", "served")
        (self.folder / "served").rmdir()
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors.count("\n")), (1, 1), errors)
        self.assertIn("served", errors)

    def test_a_thousand_images_take_the_memory_of_the_first_batch(self):
        draw = random.Random(3)
        names = [str(draw.choice(PICTURES)) for _ in range(1000)]
        images, summary = self.classify("-", stdin="\n".join(names))
        self.assertEqual([one["image"] for one in images], names)
        memory = summary["memory"]
        self.assertEqual(memory["source_calls_after_first_batch"], 0)
        _, few = self.classify("-", stdin="\n".join(names[:16]))
        self.assertEqual(memory["peak_reserved_bytes"], few["memory"]["peak_reserved_bytes"])
        self.assertLess(memory["peak_rss_bytes"], few["memory"]["peak_rss_bytes"] + (8 << 20))
        self.assertGreater(summary["images_per_second"], 0)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
