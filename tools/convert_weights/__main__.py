"""Turns a trained network's file into cistern's weights file (safetensors with a card of metadata).

    tools/convert FILE OUT [--labels FILE] [--origin TEXT]

Lists each tensor of FILE and what became of it; a tensor that is missing, unknown or of the wrong shape is an error.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys
import tempfile

import safetensors.numpy

import mobilenet_v2
import read_npz
import read_tflite
from network import ConvertError

READERS = {".npz": read_npz.read, ".tflite": read_tflite.read}
IMAGENET_LABELS = pathlib.Path(__file__).resolve().parents[2] / "weights" / "imagenet_labels.txt"


def labels_for(classes, path):
    """ImageNet's names, with or without the background in front, unless `path` has others, one a line."""
    if path is None and classes not in (1000, 1001):
        raise ConvertError(f"has {classes} classes, which are not ImageNet's: give --labels FILE, one name a line")
    labels = (path or IMAGENET_LABELS).read_text(encoding="utf-8").splitlines()
    if path is None and classes == 1000:
        labels = labels[1:]
    if len(labels) != classes:
        raise ConvertError(f"has {classes} classes, but {path} has {len(labels)} lines")
    return labels


def card_of(network, arguments):
    card = mobilenet_v2.check(network)
    mean, std = network.range
    card["preprocessing"] = {"size": network.size, "channels": card["channels"], "mean": mean, "std": std}
    card["labels"] = labels_for(card["classes"], arguments.labels)
    card["origin"] = arguments.origin or network.origin
    card["source_sha256"] = hashlib.sha256(arguments.file.read_bytes()).hexdigest()
    return card


def write(path, network, card):
    """Replaces `path` in one step, or leaves it as it was."""
    arrays = {name: tensor.values for name, tensor in sorted(network.tensors.items())}
    data = hashlib.sha256()
    for values in arrays.values():
        data.update(values.tobytes())
    content = safetensors.numpy.save(arrays, {"cistern": json.dumps(card), "sha256": data.hexdigest()})
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as temporary:
        try:
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())
            os.chmod(temporary.name, 0o644)
            os.replace(temporary.name, path)
        except BaseException:
            os.unlink(temporary.name)
            raise


def report(network, card):
    for name, tensor in network.tensors.items():
        print(f"{tensor.source} {list(tensor.source_shape)} -> {name} {list(tensor.values.shape)}")
    for name, why in network.skipped:
        print(f"{name} left out: {why}")
    print(f"{len(network.tensors)} tensors, {sum(t.values.size for t in network.tensors.values()):,} numbers; "
          + ", ".join(f"{key} {card[key]}" for key in ("model", "width", "classes", "padding", "batch_norm")))


def main():
    parser = argparse.ArgumentParser(prog="convert", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE", help="what to convert: .npz, .tflite")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the weights file to write, .safetensors")
    parser.add_argument("--labels", type=pathlib.Path, help="names of the classes, one a line (ImageNet's need none)")
    parser.add_argument("--origin", help="where FILE comes from and its licence, for the card")
    arguments = parser.parse_args()
    if arguments.file.suffix not in READERS:
        parser.error(f"{arguments.file}: unknown kind of file; known: {', '.join(READERS)}")
    try:
        network = READERS[arguments.file.suffix](arguments.file)
        card = card_of(network, arguments)
        write(arguments.out, network, card)
    except ConvertError as error:
        print(f"convert: {arguments.file} {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"convert: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    report(network, card)
    return 0


sys.exit(main())
