"""What a Keras model's configuration says beside its weights: is it the network it seems to be, what does it take?"""
import dataclasses

from network import ConvertError

COMMON = {"input_layer": {}, "dropout": {}, "rescaling": {}, "softmax": {}, "flatten": {}, "reshape": {},
          "dense": {"activation": ("linear", "softmax")}}
# The kinds of layers of each network, and what the configuration of each must be.
KNOWN = {
    "mobilenet_v2": COMMON | {
        "conv2d": {"activation": ("linear",), "dilation_rate": ([1, 1],), "groups": (1,)},
        "depthwise_conv2d": {"activation": ("linear",), "dilation_rate": ([1, 1],), "depth_multiplier": (1,)},
        "batch_normalization": {"center": (True,), "scale": (True,)},
        "re_lu": {"max_value": (6.0,), "negative_slope": (0.0,), "threshold": (0.0,)},
        "zero_padding2d": {}, "add": {}, "global_average_pooling2d": {}},
    "mnist_cnn": COMMON | {
        "conv2d": {"activation": ("relu",), "strides": ([1, 1],), "padding": ("valid",), "dilation_rate": ([1, 1],)},
        "max_pooling2d": {"pool_size": ([2, 2],), "strides": ([2, 2],), "padding": ("valid",)}},
}


@dataclasses.dataclass
class Layer:
    name: str
    kind: str  # Keras' class in snake_case; empty if the file does not say
    config: dict  # None if the file has weights only
    variables: dict  # variable -> (name in the file, values)


def check_config(layers, network):
    """Fails with ConvertError at a layer that `network.model` does not have; takes size, range and epsilon over."""
    known = KNOWN[network.model]
    for layer in layers:
        if layer.config is None:
            continue
        if layer.kind not in known:
            raise ConvertError(f"layer {layer.name} ({layer.kind}) is none of {network.model}'s")
        for key, allowed in known[layer.kind].items():
            if key in layer.config and layer.config[key] not in allowed:
                raise ConvertError(f"layer {layer.name} has {key} {layer.config[key]}, "
                                   f"{network.model} has {allowed[0]}")
        shape = layer.config.get("batch_shape") or layer.config.get("batch_input_shape")
        if shape and len(shape) == 4:
            network.set_size(shape[1:])
        if layer.kind == "rescaling":
            take_rescaling(layer, network)
        elif layer.kind == "batch_normalization":
            network.set_once("epsilon", layer.config["epsilon"], layer.name)
        elif layer.kind == "zero_padding2d" and network.size % 32 == 0:
            if layer.config["padding"] != [[0, 1], [0, 1]]:
                raise ConvertError(f"layer {layer.name} pads by {layer.config['padding']}, "
                                   "Keras' MobileNetV2 by [[0, 1], [0, 1]]")


def take_rescaling(layer, network):
    scale, offset = layer.config["scale"], layer.config.get("offset", 0.0)
    if not all(isinstance(number, (int, float)) for number in (scale, offset)):
        raise ConvertError(f"layer {layer.name} rescales each channel in its own way, which this tool does not take")
    network.set_range(offset, 255 * scale + offset)
