"""Turns a trained network's file into cistern's weights file (safetensors with a card of metadata).

FILE, by its ending:
  .tflite            MobileNetV2, float or quantised
  .h5 .keras         Keras' MobileNetV2, or the tutorial's network for MNIST
  .pth .pt           torchvision's mobilenet_v2, a state_dict
  .onnx              MobileNetV2
  .npz               TF-slim's MobileNetV2, batch norm folded
  a folder, .tar.gz, .tgz, .index
                     TF-Hub's MobileNetV2 and other SavedModels of TF-slim's, or its checkpoint (needs TensorFlow)

Lists each tensor of FILE and what became of it. A tensor that is missing, unknown or of the wrong shape is an error
that names it, and OUT stays as it was.
"""
import argparse
import hashlib
import importlib
import pathlib
import resource
import sys

import network as net
import weights_file

READERS = {".npz": "read_npz", ".tflite": "read_tflite", ".h5": "read_keras", ".keras": "read_keras",
           ".onnx": "read_onnx", ".pth": "read_torch", ".pt": "read_torch", ".tar.gz": "read_tensorflow",
           ".tgz": "read_tensorflow", ".index": "read_tensorflow"}
MOST_MEMORY = 4 << 30  # A hostile file may claim any size; the largest of these networks needs a tenth.
RANGES = {"0..1": net.ZERO_TO_ONE, "-1..1": net.MINUS_ONE_TO_ONE, "imagenet": net.IMAGENET}


def reader_of(path):
    """The module that reads files like `path`, or None."""
    if path.is_dir():
        return "read_tensorflow"
    return next((reader for ending, reader in READERS.items() if path.name.endswith(ending)), None)


def sha256_of(path):
    """Empty where the network is in more files than one."""
    return "" if path.is_dir() or path.suffix == ".index" else hashlib.sha256(path.read_bytes()).hexdigest()


def convert(arguments):
    """The network and its card, after OUT was written."""
    arguments.file.stat()
    sha256 = sha256_of(arguments.file)
    network = importlib.import_module(reader_of(arguments.file)).read(arguments.file)
    network.origin = arguments.origin or network.origin
    network.range = RANGES.get(arguments.range, network.range)
    card = weights_file.card_of(network, sha256, arguments.labels)
    weights_file.write(arguments.out, network, card)
    return network, card


def report(network, card):
    for name, tensor in network.tensors.items():
        print(f"{tensor.source} {list(tensor.source_shape)} -> {name} {list(tensor.values.shape)}")
    for name, why in network.skipped:
        print(f"{name} left out: {why}")
    keys = [key for key in ("model", "width", "classes", "padding", "batch_norm") if key in card]
    print(f"{len(network.tensors)} tensors, {sum(t.values.size for t in network.tensors.values()):,} numbers; "
          + ", ".join(f"{key} {card[key]}" for key in keys))


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"convert: {message} (see --help)\n")


def main():
    parser = Parser(prog="convert", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="the weights file to write, x.safetensors")
    parser.add_argument("--labels", type=pathlib.Path, help="names of the classes, one a line (ImageNet's need none)")
    parser.add_argument("--origin", help="where FILE comes from and its licence, for the card")
    parser.add_argument("--range", choices=RANGES, help="what the network takes, if not what its format's models take")
    arguments = parser.parse_args()
    if reader_of(arguments.file) is None:
        parser.error(f"{arguments.file}: unknown kind of file; known: {', '.join(READERS)}")
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    try:
        report(*convert(arguments))
    except net.ConvertError as error:
        print(f"convert: {arguments.file} {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"convert: {error.filename or arguments.file}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
