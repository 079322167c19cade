"""torchvision's mobilenet_v2, as torch.save writes its state_dict."""
import os
import pathlib
import sys

import network as net
from network import ConvertError, Network, parsing

LAYOUTS = {4: "OIHW", 2: "OI", 1: "C"}


def import_torch():
    """The project's own torch, not one more in the tool's environment."""
    libtorch = os.environ.get("CISTERN_TORCH")
    root = pathlib.Path(__file__).resolve().parents[2]
    places = [pathlib.Path(libtorch).parent] if libtorch else root.glob(".venv/lib/python3*/site-packages")
    sys.path += map(str, places)
    try:
        import torch
    except ImportError as error:
        raise ConvertError(f"needs torch to be read ({error}): run tools/setup.sh") from error
    return torch


def read(path):
    torch = import_torch()
    try:
        with parsing("torch file"):
            state = torch.load(path, map_location="cpu", weights_only=True)
    except ConvertError as error:
        if "weights_only" not in str(error).lower() and "weights only" not in str(error).lower():
            raise
        raise ConvertError("is damaged, or holds more than tensors, which may run code when loaded: "
                           "save model.state_dict()") from error
    for wrapper in ("state_dict", "model"):  # As training scripts save it, beside the optimizer.
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ConvertError("holds no state_dict of tensors")
    network = Network(padding="symmetric", epsilon=1e-5, range=net.IMAGENET,
                      origin="torchvision's mobilenet_v2 (BSD-3-Clause)")
    for name, tensor in state.items():
        target = name.removeprefix("module.")  # DataParallel's
        if target.endswith(".num_batches_tracked"):
            network.skipped.append((name, "only training counts batches"))
        elif tensor.dim() not in LAYOUTS:
            raise ConvertError(f"tensor {name} of shape {list(tensor.shape)} belongs to no layer of MobileNetV2")
        else:
            network.add(target, name, tensor.float().numpy(), LAYOUTS[tensor.dim()])
    return network
