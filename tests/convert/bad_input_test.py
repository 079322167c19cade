#!/usr/bin/env python3
"""What tools/convert says of files that it cannot take: one line, what is wrong with which file; none is written."""
import os
import random
import unittest

import h5py
import numpy as np

import support  # first: it says where modules are
import onnx_graph
from small_files import FORMATS, WIDTH, write
from support import Case, convert, mobilenet_v2, network, torch

class BadInput(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tensors = support.made_up(WIDTH)
        for kind in FORMATS:
            write(cls.folder / f"good.{kind}", cls.tensors)

    def refused(self, file, *options, status=1, out=None):
        """The one line that convert says of `file`."""
        out = out or self.folder / "refused.safetensors"
        before = sorted(os.listdir(self.folder))
        result = convert(file, out, *options)
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "a file was written")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("convert: "), result.stderr)
        self.assertIn(str(file), result.stderr)
        return result.stderr

    def write_changed(self, kind, **changes):
        tensors = {**self.tensors, **{name.replace("__", "."): values for name, values in changes.items()}}
        path = self.folder / f"changed.{kind}"
        write(path, {name: values for name, values in tensors.items() if values is not None})
        return path

    def test_the_small_networks_are_taken_as_they_are(self):
        for kind in FORMATS:
            card, tensors = self.converted(self.folder / f"good.{kind}")
            self.assertEqual((card["width"], card["classes"]), (WIDTH, 1000))
            self.assertEqual(len(card["labels"]), 1000)
            self.assert_close(tensors["classifier.1.weight"], self.tensors["classifier.1.weight"], 0)

    def test_a_file_that_is_cut_short_or_empty_or_of_another_kind_is_refused(self):
        for kind in FORMATS:
            content = (self.folder / f"good.{kind}").read_bytes()
            other = (self.folder / f"good.{'h5' if kind == 'onnx' else 'onnx'}").read_bytes()
            for bad in (content[:len(content) // 2], b"", other):
                path = self.folder / f"bad.{kind}"
                path.write_bytes(bad)
                with self.subTest(kind=kind, bytes=len(bad)):
                    self.refused(path)

    def test_a_file_that_is_not_there_or_a_folder_or_of_no_known_kind_is_refused(self):
        self.assertIn("No such file", self.refused(self.folder / "absent.onnx"))
        folder = self.folder / "folder.onnx"
        folder.mkdir(exist_ok=True)
        self.assertIn("is a folder without saved_model.pb", self.refused(folder))
        self.assertIn("unknown kind of file; known: .npz", self.refused(self.folder / "weights.docx", status=2))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_that_may_not_be_read_is_refused(self):
        (self.folder / "locked.npz").write_bytes(b"")
        (self.folder / "locked.npz").chmod(0)
        self.assertIn("Permission denied", self.refused(self.folder / "locked.npz"))

    def test_a_small_file_that_claims_to_hold_gigabytes_is_refused_without_taking_them(self):
        path = self.folder / "huge.h5"
        with h5py.File(path, "w") as file:
            file.attrs["layer_names"] = ["Conv1"]
            group = file.create_group("Conv1")
            group.attrs["weight_names"] = ["Conv1/kernel:0"]
            group.create_dataset("Conv1/kernel:0", (1 << 31,), np.float32, chunks=(1 << 20,))
        self.assertLess(path.stat().st_size, 1 << 20)
        self.assertIn("Unable to allocate 8.00 GiB", self.refused(path))

    def test_a_tensor_of_the_wrong_shape_is_named(self):
        wrong = np.zeros((16, 3, 5, 5), np.float32)
        names = {"npz": "Conv_Conv2D/weight", "h5": "/Conv1/Conv1/kernel:0", "pth": "features.0.0.weight",
                 "tflite": "Conv/weights", "onnx": "Conv/weights"}
        for kind, name in names.items():
            with self.subTest(kind):
                message = self.refused(self.write_changed(kind, features__0__0__weight=wrong))
                self.assertIn(name, message)
                self.assertIn("features.0.0.weight wants [16, 3, 3, 3]", message)

    def test_channels_that_do_not_fit_together_are_named(self):
        message = self.refused(self.write_changed("pth", features__2__conv__2__bias=np.zeros(9, np.float32)))
        self.assertIn("features.2.conv.2.bias has shape [9]", message)

    def test_a_missing_tensor_is_named(self):
        self.assertIn("has no tensor for features.2.conv.2.bias",
                      self.refused(self.write_changed("pth", features__2__conv__2__bias=None)))
        np.savez(self.folder / "missing.npz", **{"Conv_Conv2D/bias": np.zeros(16)})
        self.assertIn("has no tensor for features.0.0.weight", self.refused(self.folder / "missing.npz"))

    def test_a_tensor_that_belongs_to_no_layer_is_named(self):
        message = self.refused(self.write_changed("pth", features__19__weight=np.zeros(3, np.float32)))
        self.assertIn("tensor features.19.weight belongs to no layer of mobilenet_v2", message)
        np.savez(self.folder / "unknown.npz", **{"Stem/weight": np.zeros(3)})
        self.assertIn("tensor Stem/weight belongs to no layer", self.refused(self.folder / "unknown.npz"))

    def test_values_that_are_no_numbers_are_refused(self):
        bias = self.tensors["classifier.1.bias"].copy()
        bias[7] = np.nan
        self.assertIn("tensor classifier.1.bias holds values that are no numbers",
                      self.refused(self.write_changed("pth", classifier__1__bias=bias)))

    def test_a_pickle_that_would_run_code_is_not_run(self):
        class Intruder:
            def __reduce__(self):
                return os.mkdir, (str(BadInput.folder / "intruded"),)
        torch.save({"weight": Intruder()}, self.folder / "code.pth")
        self.assertIn("may run code when loaded", self.refused(self.folder / "code.pth"))

    def test_a_graph_that_is_another_network_is_refused_at_its_first_step_that_differs(self):
        graph = onnx_graph.model(support.unfolded(self.tensors, 1e-3, width=WIDTH), WIDTH)
        clip = next(node for node in graph.graph.node if node.op_type == "Clip")
        clip.op_type = "HardSwish"
        del clip.input[1:]
        (self.folder / "other.onnx").write_bytes(graph.SerializeToString())
        self.assertIn("HardSwish Clip_3 stands where MobileNetV2 has relu6 after features.0.0",
                      self.refused(self.folder / "other.onnx"))

    def test_a_residual_from_the_wrong_place_is_refused(self):
        graph = onnx_graph.model(support.unfolded(self.tensors, 1e-3, width=WIDTH), WIDTH)
        add = next(node for node in graph.graph.node if node.op_type == "Add")
        add.input[0] = "Clip_3"
        (self.folder / "other.onnx").write_bytes(graph.SerializeToString())
        self.assertIn("does not add the input of its block", self.refused(self.folder / "other.onnx"))

    def test_labels_must_be_as_many_as_classes_and_text(self):
        labels = self.folder / "labels.txt"
        for content, message in ((b"cat\ndog\n", "has 1000 classes, but"), (b"\xff\xfe\n" * 1000, "no UTF-8 text")):
            labels.write_bytes(content)
            self.assertIn(message, self.refused(self.folder / "good.npz", "--labels", labels))
        weight, bias = np.zeros((10, 1280), np.float32), np.zeros(10, np.float32)
        ten_classes = self.write_changed("pth", classifier__1__weight=weight, classifier__1__bias=bias)
        self.assertIn("give --labels FILE", self.refused(ten_classes))

    def test_an_output_that_cannot_be_written_is_named_and_what_was_there_stays(self):
        refused = {self.folder / "no" / "out.safetensors": "No such file",
                   self.folder: "no file that could be replaced", "/dev/null": "no file that could be replaced"}
        for out, message in refused.items():
            result = convert(self.folder / "good.npz", out)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
            self.assertIn(f"{out}: ", result.stderr)
            self.assertIn(message, result.stderr)
        kept = self.folder / "kept.safetensors"
        kept.write_text("as it was")
        self.refused(self.folder / "absent.onnx", out=kept)
        self.assertEqual(kept.read_text(), "as it was")

    def test_wrong_arguments_are_one_line_and_status_2(self):
        for arguments in ((), ("only.npz",), ("a.npz", "b", "--range", "0..255")):
            result = convert(*arguments)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)

    def test_damage_anywhere_is_a_message_or_harmless_but_never_a_crash(self):
        seed = int(os.environ.get("CISTERN_SEED", "1"))
        draw = random.Random(seed)
        for kind in FORMATS:
            reader = __import__(f"read_{dict(pth='torch', h5='keras').get(kind, kind)}")
            content = (self.folder / f"good.{kind}").read_bytes()
            for trial in range(25):
                damaged = bytearray(content)
                # Half of them near an end, where most formats keep their structure.
                spots = (draw.randrange(len(content)), draw.randrange(3000), len(content) - 1 - draw.randrange(3000))
                for _ in range(draw.randrange(1, 6)):
                    damaged[draw.choice(spots)] = draw.randrange(256)
                path = self.folder / f"damaged.{kind}"
                path.write_bytes(damaged)
                with self.subTest(kind=kind, trial=trial, seed=seed):
                    try:
                        mobilenet_v2.check(reader.read(path))
                    except network.ConvertError as error:
                        self.assertNotIn("\n", str(error))


if __name__ == "__main__":
    unittest.main()
