#!/usr/bin/env python3
"""cistern-train beyond MNIST: MobileNetV2 on made-up pictures, weights files, those that are shipped.

    train_mobilenet_test.py PROGRAM [arguments of unittest]
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import train_test
from pictures import grey_png, png
from train_test import STRATEGIES, TrainCase, write_mnist

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Weights(TrainCase):
    def test_saved_weights_evaluate_to_what_the_training_said(self):
        run = self.train("--save", "w.safetensors")[0]
        found = self.evaluate("w.safetensors")
        self.assertEqual((found["model"], found["images"]), ("mnist_cnn", 200))
        self.assertAlmostEqual(found["accuracy"], run["val_accuracy"], places=6)
        self.assertAlmostEqual(found["loss"], run["val_loss"], places=5)

    def evaluate(self, weights, *arguments):
        done = subprocess.run([train_test.PROGRAM, "--json", "--evaluate", weights, "--device", "cpu", "--data", self.data, *arguments],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_shipped_weights_are_as_good_as_their_readme_says(self):
        shipped = ROOT / "weights"
        self.assertGreater(self.evaluate(shipped / "mnist_cnn.safetensors", "--data", "mnist")["accuracy"], 0.98)
        if not pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
            self.skipTest("no dataset-fashion-mnist")
        found = self.evaluate(shipped / "fashion_mnist.safetensors", "--data", "fashion-mnist")
        self.assertGreaterEqual(found["accuracy"], 0.90)

    def test_training_goes_on_from_weights(self):
        first = self.train("--save", "w.safetensors")[0]
        second = self.train("--weights", "w.safetensors")[0]
        self.assertLess(second["epoch_loss"][0], first["epoch_loss"][0])

    def test_weights_that_do_not_fit(self):
        self.train("--save", "w.safetensors")
        self.refuses(1, "is of mnist_cnn", "--weights", "w.safetensors", "--model", "mobilenet_v2")
        self.refuses(1, "missing", "--weights", "missing")
        self.refuses(1, "missing", "--evaluate", "missing")
        self.refuses(1, "safetensors", "--evaluate", "data/t10k-images-idx3-ubyte")
        self.refuses(2, "--evaluate", "--evaluate", "w.safetensors", "--save", "x")
        self.refuses(2, "--width", "--weights", "w.safetensors", "--width", "0.5")
        self.refuses(2, "--width", "--width", "0.5")
        self.refuses(1, "nowhere/w", "--save", "nowhere/w")


class MobileNet(TrainCase):
    """Narrow, on few small pictures: what is tested does not depend on the size."""

    def setUp(self):
        super().setUp()
        write_mnist(self.data, train=120, test=40)

    def command(self, *arguments):
        small = [] if "--resume" in arguments or "--weights" in arguments else ["--width", "0.1"]
        model = [] if "--resume" in arguments else ["--model", "mobilenet_v2"]
        return super().command(*model, *small, *arguments)

    def write_folder(self, folder, shades, count):
        for label, shade in shades.items():
            (self.folder / folder / label).mkdir(parents=True)
            for i in range(count):
                (self.folder / folder / label / f"{i:02}.png").write_bytes(grey_png(20 + i, shade + i))

    def test_every_strategy_gives_the_same_weights(self):
        runs = self.train("--compare", ",".join(STRATEGIES))
        self.assertEqual(len({run["weights_sha256"] for run in runs}), 1)
        self.assertEqual([run["model"] for run in runs], ["mobilenet_v2"] * 4)
        preallocated = runs[STRATEGIES.index("preallocate")]["memory"]
        self.assertEqual(preallocated["source_calls_after_first_epoch"], 0)

    def test_resume_is_bit_for_bit_the_uninterrupted_run(self):
        for augment in ("none", "crop,flip"):
            common = ["--augment", augment, "--lr-decay", "0.5"]
            whole = self.train("--epochs", "3", *common)[0]
            folder = "saved-" + augment
            self.train("--epochs", "1", "--checkpoint", folder, *common)
            resumed = self.train("--epochs", "3", "--checkpoint", folder, "--resume")[0]
            self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])
            self.assertEqual(resumed["epoch_loss"], whole["epoch_loss"][1:])
        self.refuses(1, "--augment", "--checkpoint", folder, "--resume", "--augment", "flip")
        self.refuses(1, "--width", "--checkpoint", folder, "--resume", "--width", "0.2")
        self.refuses(1, "--model", "--checkpoint", folder, "--resume", "--model", "mnist_cnn")

    def test_the_seed_decides_the_augmentation_too(self):
        first, again, other = (self.train("--epochs", "1", "--seed", seed)[0]["epoch_loss"] for seed in ("1", "1", "2"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_it_learns_folders_of_pictures_and_its_weights_evaluate_to_the_same(self):
        self.write_folder("shades", {"dark": 10, "light": 200}, 20)
        folder = ["--data", "shades", "--size", "16", "--save", "w.safetensors"]
        run = self.train(*folder, "--epochs", "12", "--batch-size", "6", "--lr", "0.01")[0]
        self.assertEqual(run["val_accuracy"], 1.0)
        done = subprocess.run([train_test.PROGRAM, "--json", "--evaluate", "w.safetensors", "--data", "shades", "--device", "cpu"],
                              cwd=self.folder, stdout=subprocess.PIPE, universal_newlines=True, check=True)
        found = json.loads(done.stdout)
        self.assertEqual((found["images"], found["accuracy"]), (4, 1.0))  # Every tenth was held back.

    def test_a_folder_may_bring_its_own_test_pictures(self):
        self.write_folder("set/train", {"dark": 10, "light": 200}, 4)
        self.write_folder("set/test", {"light": 210}, 3)
        self.train("--data", "set", "--size", "16", "--epochs", "1", "--save", "w.safetensors")
        header = (self.folder / "w.safetensors").read_bytes()[:20000]
        self.assertIn(rb'\"labels\":[\"dark\",\"light\"]', header)

    def test_weights_for_other_classes_get_a_new_last_layer(self):
        self.train("--save", "ten.safetensors", "--epochs", "1")
        self.write_folder("shades", {"dark": 10, "light": 200}, 20)
        run = self.train("--weights", "ten.safetensors", "--data", "shades", "--save", "two.safetensors", "--epochs", "1")[0]
        self.assertEqual(run["model"], "mobilenet_v2")
        done = subprocess.run([train_test.PROGRAM, "--evaluate", "two.safetensors", "--data", self.data, "--device", "cpu"],
                              cwd=self.folder, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("tells 2 classes apart", done.stderr)

    def test_folders_that_are_no_data_sets(self):
        (self.folder / "hollow").mkdir()
        self.refuses(1, "hollow: holds neither", "--data", "hollow")
        self.refuses(1, "nowhere: is no directory", "--data", "nowhere")
        self.write_folder("few", {"dark": 10, "light": 200}, 3)
        self.refuses(1, "every tenth", "--data", "few")
        self.write_folder("odd/train", {"dark": 10, "light": 200}, 2)
        self.write_folder("odd/test", {"grey": 100}, 2)
        self.refuses(1, "'grey'", "--data", "odd")

    def test_a_broken_picture_is_named(self):
        self.write_folder("shades", {"dark": 10, "light": 200}, 20)
        (self.folder / "shades/dark/05.png").write_bytes(png(30, 30))
        done = self.run_program("--data", "shades", "--size", "16")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("shades/dark/05.png: is damaged", done.stderr.splitlines()[-1])

    def test_its_options_are_its_own(self):
        self.refuses(2, "mnist_cnn only", "--loop", "tuned")
        self.refuses(2, "--augment", "--augment", "spin")
        self.refuses(2, "--size", "--size", "1")


if __name__ == "__main__":
    train_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
