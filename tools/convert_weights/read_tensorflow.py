"""TensorFlow's files of a TF-slim MobileNetV2: a SavedModel (TF-Hub's, a folder or an archive) or a checkpoint.

TensorFlow reads them, in an environment of its own; the names and what they mean are known here.
"""
import json
import pathlib
import subprocess
import tarfile
import tempfile

import numpy as np

import mobilenet_v2
from network import ConvertError, Network, parsing

PYTHON = pathlib.Path(__file__).resolve().parents[2] / ".venv-convert-tensorflow" / "bin" / "python"
AVERAGE = "/ExponentialMovingAverage"
ONLY_TRAINING = ("/RMSProp", "/RMSProp_1", "/Momentum", "/Adam", "/Adam_1", "global_step", "save_counter")
PARTS_OF_NORM = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


def read(path):
    with tempfile.TemporaryDirectory() as folder:
        prefix, saved_model = find_files(path, pathlib.Path(folder))
        if not PYTHON.exists():
            raise ConvertError("needs TensorFlow to be read: run tools/setup.sh --convert-tensorflow")
        return network_of(*run_tensorflow(prefix, saved_model, pathlib.Path(folder)))


def find_files(path, folder):
    """The prefix of the checkpoint's files, and the graph's file or None."""
    if path.suffix == ".index":
        return path.with_suffix(""), None
    if path.is_dir():
        if not (path / "saved_model.pb").is_file():
            raise ConvertError("is a folder without saved_model.pb, no SavedModel")
        return path / "variables" / "variables", path / "saved_model.pb"
    with parsing("archive of a SavedModel or a checkpoint"):
        with tarfile.open(path) as archive:
            return unpack(archive, folder)


def unpack(archive, folder):
    """Only what is needed, and by names of our own: an archive's may lead anywhere."""
    saved_model, found = None, []
    for member in archive:
        name = pathlib.PurePosixPath(member.name)
        if not member.isfile():
            continue
        if name.name == "saved_model.pb":
            saved_model = folder / "saved_model.pb"
            saved_model.write_bytes(archive.extractfile(member).read())
        elif name.suffix == ".index" or ".data-" in name.suffix:
            found.append(str(name.with_suffix("")))
            (folder / f"variables{name.suffix}").write_bytes(archive.extractfile(member).read())
    if len(set(found)) != 1:
        raise ConvertError(f"holds {len(set(found))} checkpoints; a SavedModel's or a checkpoint's archive holds one")
    return folder / "variables", saved_model


def run_tensorflow(prefix, saved_model, folder):
    script = pathlib.Path(__file__).with_name("tensorflow_variables.py")
    command = [PYTHON, script, prefix, folder, *([saved_model] if saved_model else [])]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
        raise ConvertError(f"could not be read by TensorFlow: {reason[:200]}")
    with np.load(folder / "variables.npz", allow_pickle=False) as archive:
        variables = {name: archive[name] for name in archive.files}
    return variables, json.loads((folder / "graph.json").read_text()), saved_model is not None


def network_of(variables, description, is_saved_model):
    kind = "SavedModel, as on TF-Hub," if is_saved_model else "checkpoint"
    network = Network(origin=f"{kind} of a TF-slim MobileNetV2 (Apache-2.0)")
    for epsilon in description["epsilons"]:
        network.set_once("epsilon", epsilon, "a batch norm of the graph")
    if is_saved_model:
        set_range(network, description["scalings"])
    targets = slim_targets()
    for name, values in variables.items():
        plain = name.removesuffix(AVERAGE)
        if name + AVERAGE in variables:
            network.skipped.append((name, "its moving average over the training is taken"))
        elif plain in targets:
            network.add(targets[plain][0], name, values, targets[plain][1])
        elif plain.endswith(ONLY_TRAINING):
            network.skipped.append((name, "only training needs it"))
        elif values.dtype.kind == "f":
            raise ConvertError(f"tensor {name} belongs to no layer of MobileNetV2")
    network.flatten_classifier()
    return network


def set_range(network, scalings):
    """TF-Hub's modules take 0 to 1 and scale inside; what the first convolution is fed is what our network is fed."""
    if len(scalings) != 1:
        raise ConvertError(f"scales its input in {len(scalings)} ways, so the range of the network is unknown")
    (factor, offset), = scalings
    network.set_scaling(factor, offset)


def slim_targets():
    targets = {"MobilenetV2/Logits/Conv2d_1c_1x1/weights": ("classifier.1.weight", "HWIO"),
               "MobilenetV2/Logits/Conv2d_1c_1x1/biases": ("classifier.1.bias", "C")}
    for layer in mobilenet_v2.layers(1.0):
        scope = f"MobilenetV2/{layer.slim}"
        kernel = ("depthwise_weights", "HWC1") if layer.depthwise else ("weights", "HWIO")
        targets[f"{scope}/{kernel[0]}"] = (f"{layer.conv}.weight", kernel[1])
        for part, ours in PARTS_OF_NORM.items():
            targets[f"{scope}/BatchNorm/{part}"] = (f"{layer.norm}.{ours}", "C")
    return targets
