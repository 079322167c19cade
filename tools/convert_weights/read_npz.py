"""NumPy archives of TF-slim's network, batch norm folded: <layer>/weight (OHWI; depthwise 1HWC) and <layer>/bias."""
import numpy as np

import mobilenet_v2
from network import ConvertError, Network, parsing


def read(path):
    with parsing("NumPy archive"):
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    network = Network(origin="NumPy archive of a TF-slim MobileNetV2, batch norm folded")
    targets = {"Logits_Conv2d_1c_1x1_Conv2D": ("classifier.1", "OHWI")}
    for layer in mobilenet_v2.layers(1.0):
        operation = "depthwise" if layer.depthwise else "Conv2D"
        targets[f"{layer.slim.replace('/', '_')}_{operation}"] = (layer.conv, "1HWC" if layer.depthwise else "OHWI")
    for name, values in arrays.items():
        source, _, part = name.rpartition("/")
        if source not in targets or part not in ("weight", "bias"):
            raise ConvertError(f"tensor {name} belongs to no layer of MobileNetV2")
        target, layout = targets[source]
        network.add(f"{target}.{part}", name, values, "C" if part == "bias" else layout)
    network.flatten_classifier()
    return network
