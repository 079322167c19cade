"""What the converter's tests share: running it, weights to convert, and what a weights file computes.

Run with the converter's own interpreter; torch is the project's, or where CISTERN_TORCH says.
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools" / "convert_weights"))

import network  # noqa: E402
import read_torch  # noqa: E402

try:
    torch = read_torch.import_torch()
except network.ConvertError as error:
    print(f"skipped: {error}")
    sys.exit(77)
from safetensors import safe_open  # noqa: E402

import mobilenet_v2  # noqa: E402

SHARED = pathlib.Path(os.environ.get("CISTERN_SHARED_DATA", ROOT.parent / "shared" / "data")) / "mobilenet_v2"
NPZ = SHARED / "slim_mobilenet_v2_1.0_224_folded.npz"
needs_shared = unittest.skipUnless(NPZ.exists(), f"no {NPZ}")
PICTURES = ("bird", "cat", "dragonfly", "grace_hopper", "parrot")


def convert(*arguments):
    return subprocess.run([ROOT / "tools" / "convert", *arguments], capture_output=True, text=True)


class Case(unittest.TestCase):
    """A folder of its own for each class of tests."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def converted(self, file, *options):
        """The weights file that `file` becomes, as (card, tensors)."""
        out = self.folder / "out.safetensors"
        result = convert(file, out, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return read_weights(out)

    def assert_close(self, found, wanted, tolerance):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLessEqual(float(np.abs(np.asarray(found) - np.asarray(wanted)).max()), tolerance)


def read_weights(file):
    with safe_open(file, "pt") as opened:
        return json.loads(opened.metadata()["cistern"]), {name: opened.get_tensor(name) for name in opened.keys()}


def pictures():
    """The five pictures of the shared data, as the network's input before any normalising: u8 [5, 224, 224, 3]."""
    flat = [np.fromfile(SHARED / "reference" / f"{name}.rgb_u8", np.uint8) for name in PICTURES]
    return np.stack(flat).reshape(5, 224, 224, 3)


def reference_logits():
    return np.stack([np.load(SHARED / "reference" / f"{name}.logits.npy").reshape(-1) for name in PICTURES])


def normalised(card, images):
    """u8 [n, side, side, channels] as the card says the network takes it: float [n, channels, side, side]."""
    preprocessing = card["preprocessing"]
    values = (images / 255.0 - preprocessing["mean"]) / preprocessing["std"]
    return torch.from_numpy(values).permute(0, 3, 1, 2).float()


def forward(card, tensors, images):
    """Logits of a MobileNetV2 of the weights file, written from the card and the layer table alone."""
    functional = torch.nn.functional
    values = normalised(card, images)
    with torch.inference_mode():
        for layer in mobilenet_v2.layers(card["width"]):
            if layer.opens_block:
                shortcut = values
            values = convolution(card, tensors, layer, values)
            if not layer.linear:
                values = values.clamp(0, 6)
            if layer.residual:
                values = values + shortcut
        pooled = values.mean((2, 3))
        return functional.linear(pooled, tensors["classifier.1.weight"], tensors["classifier.1.bias"]).numpy()


def convolution(card, tensors, layer, values):
    functional = torch.nn.functional
    if card["padding"] == "same":
        total = max(layer.kernel - (values.shape[2] % layer.stride or layer.stride), 0)
        values = functional.pad(values, (total // 2, total - total // 2) * 2)
    values = functional.conv2d(values, tensors[f"{layer.conv}.weight"], tensors.get(f"{layer.conv}.bias"), layer.stride,
                               layer.kernel // 2 if card["padding"] == "symmetric" else 0,
                               groups=layer.outputs if layer.depthwise else 1)
    if card["batch_norm"] == "folded":
        return values
    norm = [tensors[f"{layer.norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
    return functional.batch_norm(values, *norm, eps=card["epsilon"])


@functools.cache
def folded_weights():
    """MobileNetV2's tensors with batch norm folded: the real ones of the shared data."""
    import read_npz
    return {name: tensor.values for name, tensor in read_npz.read(NPZ).tensors.items()}


def unfolded(folded, epsilon, seed=7, width=1.0):
    """The same network with batch norms of made-up statistics taken out of its weights."""
    draw = np.random.default_rng(seed)
    tensors = {name: values for name, values in folded.items() if name.startswith("classifier")}
    for layer in mobilenet_v2.layers(width):
        count = folded[f"{layer.conv}.bias"].size
        gamma, variance = draw.uniform(0.5, 2, count), draw.uniform(0.3, 3, count)
        mean = draw.normal(0, 0.5, count)
        scale = gamma / np.sqrt(variance + epsilon)
        tensors[f"{layer.conv}.weight"] = folded[f"{layer.conv}.weight"] / scale.reshape(-1, 1, 1, 1)
        parts = (gamma, folded[f"{layer.conv}.bias"] + mean * scale, mean, variance)
        tensors.update({f"{layer.norm}.{part}": values for part, values in zip(mobilenet_v2.BATCH_NORM, parts)})
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def made_up(width=0.35, classes=1000, seed=3):
    """Weights of a small network whose values neither vanish nor explode."""
    draw = np.random.default_rng(seed)
    tensors = {}
    for name, shape in mobilenet_v2.shapes(width, classes, folded=True).items():
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        tensors[name] = draw.normal(0, scale, shape).astype(np.float32)
    return tensors
