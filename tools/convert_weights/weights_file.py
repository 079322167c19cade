"""The weights file: safetensors whose metadata hold cistern's card and the sha256 of the data."""
import errno
import hashlib
import json
import os
import pathlib

import safetensors.numpy

import mnist_cnn
import mobilenet_v2
from network import ConvertError

CHECKS = {"mobilenet_v2": mobilenet_v2.check, "mnist_cnn": mnist_cnn.check}
IMAGENET_LABELS = pathlib.Path(__file__).resolve().parents[2] / "weights" / "imagenet_labels.txt"


def labels_for(card, path):
    """The lines of `path`, if given; digits; ImageNet's names with or without the background in front."""
    classes = card["classes"]
    if path is not None:
        try:
            labels = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ConvertError(f"was given labels, {path}, that are no UTF-8 text: {error}") from error
        if len(labels) != classes:
            raise ConvertError(f"has {classes} classes, but {path} has {len(labels)} lines")
        return labels
    if card["model"] == "mnist_cnn":
        return [str(digit) for digit in range(10)]
    if classes not in (1000, 1001):
        raise ConvertError(f"has {classes} classes, which are not ImageNet's: give --labels FILE, one name a line")
    return IMAGENET_LABELS.read_text(encoding="utf-8").splitlines()[1001 - classes:]


def card_of(network, source_sha256, labels_path):
    """Fails with ConvertError unless `network` has exactly the tensors of its model."""
    card = CHECKS[network.model](network)
    mean, std = (values[:card["channels"]] for values in network.range)
    card["preprocessing"] = {"size": network.size, "channels": card["channels"], "mean": mean, "std": std}
    card["labels"] = labels_for(card, labels_path)
    card["origin"] = network.origin
    card["source_sha256"] = source_sha256
    return card


def write(path, network, card):
    """Replaces `path`, a file, in one step, or leaves it as it was."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no file that could be replaced", str(path))
    arrays = {name: tensor.values for name, tensor in sorted(network.tensors.items())}
    data = hashlib.sha256()
    for values in arrays.values():
        data.update(values.tobytes())
    content = safetensors.numpy.save(arrays, {"cistern": json.dumps(card), "sha256": data.hexdigest()})
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) if isinstance(error, OSError) else error
