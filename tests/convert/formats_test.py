#!/usr/bin/env python3
"""Every format that tools/convert reads without TensorFlow, from files that the format's own package wrote here."""
import hashlib
import unittest
import warnings


import numpy as np

import support
import onnx_graph
import tflite_graph
from support import NPZ, SHARED, Case, convert, forward, needs_shared, torch

MINUS_ONE_TO_ONE = ([0.5] * 3, [0.5] * 3)
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
TFLITE = SHARED / "tf2_mobilenet_v2_1.0_224_ptq.tflite"


def range_of(card):
    return card["preprocessing"]["mean"], card["preprocessing"]["std"]


@needs_shared
class GivenFiles(Case):
    def test_the_npz_computes_the_reference_logits(self):
        card, tensors = self.converted(NPZ)
        self.assert_close(forward(card, tensors, support.pictures()), support.reference_logits(), 1e-4)

    def test_the_quantised_tflite_file_says_the_same_top_1_of_the_five_pictures(self):
        card, tensors = self.converted(TFLITE)
        found = forward(card, tensors, support.pictures())
        self.assertEqual(found.argmax(1).tolist(), support.reference_logits().argmax(1).tolist())
        self.assertEqual(range_of(card), MINUS_ONE_TO_ONE)

    def test_the_card_says_where_the_weights_come_from_and_what_they_are(self):
        card, _ = self.converted(TFLITE, "--origin", "google-coral, Apache-2.0")
        labels = card.pop("labels")
        self.assertEqual((len(labels), labels[0], labels[1]), (1001, "background", "tench"))
        self.assertEqual(card, {
            "model": "mobilenet_v2", "width": 1.0, "classes": 1001, "channels": 3, "padding": "same", "epsilon": 0.001,
            "stem_stride": 2, "batch_norm": "folded", "origin": "google-coral, Apache-2.0",
            "preprocessing": {"size": 224, "channels": 3, "mean": [0.5] * 3, "std": [0.5] * 3},
            "source_sha256": hashlib.sha256(TFLITE.read_bytes()).hexdigest()})

    def test_every_tensor_is_listed_with_its_source(self):
        result = convert(NPZ, self.folder / "listed.safetensors")
        lines = result.stdout.splitlines()
        self.assertIn("expanded_conv_depthwise_depthwise/weight [1, 3, 3, 32] -> "
                      "features.1.conv.0.0.weight [32, 1, 3, 3]", lines)
        self.assertEqual(sum(" -> " in line for line in lines), 106)

    def test_the_file_says_the_sha256_of_its_data_in_the_order_of_their_names(self):
        _, tensors = self.converted(NPZ)
        data = hashlib.sha256(b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors)))
        with support.safe_open(self.folder / "out.safetensors", "pt") as file:
            self.assertEqual(file.metadata()["sha256"], data.hexdigest())


@needs_shared
class Tflite(Case):
    def test_a_float_file_computes_the_reference_logits(self):
        tflite_graph.save(self.folder / "float.tflite", support.folded_weights())
        card, tensors = self.converted(self.folder / "float.tflite")
        self.assertEqual(range_of(card), MINUS_ONE_TO_ONE)
        self.assert_close(forward(card, tensors, support.pictures()), support.reference_logits(), 1e-4)

    def test_float16_weights_are_widened(self):
        weights = support.folded_weights()
        tflite_graph.save(self.folder / "half.tflite", weights, stored="float16")
        _, tensors = self.converted(self.folder / "half.tflite")
        for name in ("features.0.0.weight", "features.3.conv.1.0.weight", "classifier.1.weight"):
            self.assert_close(tensors[name], weights[name].astype("float16").astype("float32"), 0)

    def test_one_scale_and_zero_point_for_a_whole_tensor_are_taken_into_account(self):
        weights = support.folded_weights()
        tflite_graph.save(self.folder / "uint8.tflite", weights, stored="uint8")
        _, tensors = self.converted(self.folder / "uint8.tflite")
        for name in ("features.0.0.weight", "features.3.conv.1.0.weight", "classifier.1.weight"):
            codes, scale, zero = tflite_graph.quantised(weights[name])
            self.assert_close(tensors[name], (codes.astype("float64") - zero) * np.float32(scale), 1e-6)


class ScalingInside(Case):
    """Graphs that bring their input into the network's range themselves, which cistern's network does not do."""

    def check(self, file, wanted):
        card, _ = self.converted(file)
        for key, values in zip(("mean", "std"), wanted):
            np.testing.assert_allclose(card["preprocessing"][key], values, atol=1e-6)

    def test_the_card_has_what_the_network_itself_takes(self):
        tensors = support.made_up()
        cases = [([("Mul", 2), ("Sub", 1)], MINUS_ONE_TO_ONE), ([("Div", 127.5), ("Add", -1)], MINUS_ONE_TO_ONE),
                 ([("Mul", 1 / 255)], ([0.0] * 3, [1.0] * 3)), ([("Sub", 0.4), ("Div", 0.25)], ([0.4] * 3, [0.25] * 3))]
        for scaling, wanted in cases:
            with self.subTest(scaling):
                upper = [(operation.upper(), number) for operation, number in scaling]
                tflite_graph.save(self.folder / "scaled.tflite", tensors, 0.35, scaling=upper)
                self.check(self.folder / "scaled.tflite", wanted)
                onnx_graph.save(self.folder / "scaled.onnx", support.unfolded(tensors, 1e-3, width=0.35), 0.35, scaling)
                self.check(self.folder / "scaled.onnx", wanted)

    def test_the_user_may_say_another_range(self):
        onnx_graph.save(self.folder / "plain.onnx", support.unfolded(support.made_up(), 1e-3, width=0.35), 0.35)
        card, _ = self.converted(self.folder / "plain.onnx", "--range", "imagenet")
        self.assertEqual(range_of(card), IMAGENET)


@needs_shared
class Torchvision(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import torchvision
        cls.model = torchvision.models.mobilenet_v2(num_classes=1001).eval()
        tensors = support.unfolded(support.folded_weights(), 1e-5)
        cls.model.load_state_dict({name: torch.from_numpy(values) for name, values in tensors.items()}, strict=False)
        normalise = torchvision.transforms.Normalize(*IMAGENET)
        cls.input = normalise(torch.from_numpy(support.pictures()).permute(0, 3, 1, 2) / 255)
        with torch.inference_mode():
            cls.logits = cls.model(cls.input).numpy()

    def check(self, file, batch_norm):
        card, tensors = self.converted(file)
        self.assertEqual((card["padding"], card["batch_norm"], range_of(card)), ("symmetric", batch_norm, IMAGENET))
        self.assert_close(forward(card, tensors, support.pictures()), self.logits, 1e-4)
        return card

    def test_a_state_dict_computes_what_torchvision_computes(self):
        torch.save(self.model.state_dict(), self.folder / "model.pth")
        self.assertEqual(self.check(self.folder / "model.pth", "separate")["epsilon"], 1e-5)

    def test_a_state_dict_of_the_old_file_format_within_a_training_checkpoint_does_too(self):
        state = {f"module.{name}": tensor for name, tensor in self.model.state_dict().items()}
        torch.save({"epoch": 3, "state_dict": state}, self.folder / "old.pth", _use_new_zipfile_serialization=False)
        self.check(self.folder / "old.pth", "separate")

    def export(self, name, model=None, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # This exporter is to go; it is the one that needs no more packages.
            torch.onnx.export(model or self.model, self.input[:1], self.folder / name, dynamo=False, **options)
        return self.folder / name

    def test_onnx_as_torch_exports_it_computes_what_torchvision_computes(self):
        self.check(self.export("folded.onnx"), "folded")

    def test_onnx_with_batch_norm_and_any_number_of_pictures_does_too(self):
        file = self.export("separate.onnx", training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                           input_names=["pictures"], dynamic_axes={"pictures": [0]})
        self.assertEqual(self.check(file, "separate")["epsilon"], 1e-5)

    def test_onnx_of_the_older_torchvision_that_works_out_the_shape_in_the_graph_does_too(self):
        class Older(torch.nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, pictures):
                values = torch.nn.functional.adaptive_avg_pool2d(self.model.features(pictures), 1)
                return self.model.classifier(values.reshape(values.shape[0], -1))

        self.check(self.export("older.onnx", model=Older(self.model).eval(), opset_version=12, input_names=["pictures"],
                               dynamic_axes={"pictures": [0]}), "folded")


@needs_shared
class Onnx(Case):
    def test_a_graph_as_tensorflow_s_converters_write_it_computes_the_reference_logits(self):
        onnx_graph.save(self.folder / "tf.onnx", support.unfolded(support.folded_weights(), 1e-3))
        card, tensors = self.converted(self.folder / "tf.onnx")
        self.assertEqual((card["padding"], card["epsilon"], range_of(card)), ("same", 0.001, MINUS_ONE_TO_ONE))
        self.assert_close(forward(card, tensors, support.pictures()), support.reference_logits(), 1e-4)


if __name__ == "__main__":
    unittest.main()
