"""The tutorial's MNIST network (models/mnist_cnn.hpp): a 3x3 convolution of 32 channels, 2x2 pooling, a dense layer."""
from network import ConvertError

SHAPES = {"conv.weight": (32, 1, 3, 3), "conv.bias": (32,), "dense.weight": (10, 5408), "dense.bias": (10,)}


def check(network):
    """The card's entries for this model. Fails with ConvertError, naming the tensor that is missing or wrong."""
    network.check_shapes(SHAPES)
    return {"model": "mnist_cnn", "classes": 10, "channels": 1}
