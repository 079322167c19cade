#!/usr/bin/env python3
"""TensorFlow's files into weights files: needs .venv-convert-tensorflow (tools/setup.sh --convert-tensorflow)."""
import shutil
import subprocess
import unittest

import numpy as np

import support
from support import Case, convert, forward
import read_tensorflow


class TensorFlow(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        np.savez(cls.folder / "tensors.npz", **support.unfolded(support.folded_weights(), 1e-3))
        np.save(cls.folder / "pictures.npy", support.pictures())
        script = support.ROOT / "tests" / "convert" / "tensorflow_model.py"
        subprocess.run([read_tensorflow.PYTHON, script, "tensors.npz", "pictures.npy", "."], cwd=cls.folder, check=True)
        cls.logits = np.load(cls.folder / "logits.npy")

    def check(self, name):
        card, tensors = self.converted(self.folder / name)
        self.assertEqual((card["padding"], card["epsilon"], card["batch_norm"]), ("same", 0.001, "separate"))
        self.assertEqual((card["preprocessing"]["mean"], card["preprocessing"]["std"]), ([0.5] * 3, [0.5] * 3))
        found = forward(card, tensors, support.pictures())
        self.assert_close(found, self.logits, 1e-4)
        self.assert_close(found, support.reference_logits(), 1e-4)
        return card

    def test_the_hub_s_saved_model_fed_0_to_1_computes_the_same_logits(self):
        self.assertEqual(self.check("hub")["source_sha256"], "")

    def test_its_archive_does_too(self):
        self.assertEqual(len(self.check("hub.tar.gz")["source_sha256"]), 64)

    def test_a_checkpoint_gives_its_moving_averages(self):
        self.check("slim.ckpt.index")
        result = convert(self.folder / "slim.ckpt.index", self.folder / "listed.safetensors")
        self.assertIn("MobilenetV2/Conv/weights left out: its moving average over the training is taken", result.stdout)
        self.assertIn("global_step left out: only training needs it", result.stdout)

    def test_a_saved_model_that_does_not_scale_inside_is_a_network_for_0_to_1(self):
        card, _ = self.converted(self.folder / "plain")
        self.assertEqual((card["preprocessing"]["mean"], card["preprocessing"]["std"]), ([0.0] * 3, [1.0] * 3))

    def test_damaged_and_incomplete_files_are_refused_in_one_line(self):
        broken = self.folder / "broken"
        shutil.copytree(self.folder / "hub", broken)
        data = next((broken / "variables").glob("*.data-*"))
        data.write_bytes(data.read_bytes()[:100000])
        archive = self.folder / "cut.tar.gz"
        archive.write_bytes((self.folder / "hub.tar.gz").read_bytes()[:5000])
        for path in (broken, archive, self.folder / "absent.ckpt.index", self.folder):
            result = convert(path, self.folder / "refused.safetensors")
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(str(path), result.stderr)
            self.assertFalse((self.folder / "refused.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
