"""Run by TensorFlow's own Python: a checkpoint's variables and what the graph beside it says of them, as plain files.

    tensorflow_variables.py CHECKPOINT_PREFIX OUT_FOLDER [SAVED_MODEL_PB]

writes variables.npz, and graph.json: {"epsilons": [...], "scalings": [[a, b], ...]}, each a*x + b being done to the
input x before the first convolution.
"""
import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2  # noqa: E402

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
UNCHANGED = {"Identity", "Cast", "Pad", "PadV2", "PlaceholderWithDefault"}


def variables(prefix):
    """By the names that the program gave them; a checkpoint of objects keeps those beside its own keys."""
    reader = tf.train.load_checkpoint(prefix)
    keys = dict.fromkeys(reader.get_variable_to_shape_map())
    if OBJECT_GRAPH not in keys:
        return {key: reader.get_tensor(key) for key in keys}
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(OBJECT_GRAPH))
    attributes = [attribute for node in graph.nodes for attribute in node.attributes]
    return {attribute.full_name or attribute.checkpoint_key: reader.get_tensor(attribute.checkpoint_key)
            for attribute in attributes}


def scaling(nodes, tensor):
    """(a, b) if `tensor` is a*x + b of an x from outside of `nodes`, else None."""
    node = nodes.get(tensor.split(":")[0])
    if node is None or node.op == "Placeholder":
        return 1.0, 0.0
    if node.op in UNCHANGED:
        return scaling(nodes, node.input[0])
    operands = [nodes.get(name.split(":")[0]) for name in node.input[:2]]
    if len(operands) != 2 or operands[1] is None or operands[1].op != "Const":
        return None
    constant = tf.make_ndarray(operands[1].attr["value"].tensor)
    inner = scaling(nodes, node.input[0])
    if constant.size != 1 or inner is None:
        return None
    constant = constant.item()
    a, b = inner
    return {"Mul": (a * constant, b * constant), "RealDiv": (a / constant, b / constant), "Sub": (a, b - constant),
            "Add": (a, b + constant), "AddV2": (a, b + constant)}.get(node.op)


def is_stem(node):
    """MobileNetV2's one full convolution of stride 2; its others are depthwise, another operation."""
    return node.op == "Conv2D" and max(node.attr["strides"].list.i) == 2


def describe(saved_model):
    epsilons, scalings = set(), set()
    for meta_graph in saved_model.meta_graphs:
        bodies = [function.node_def for function in meta_graph.graph_def.library.function] + [meta_graph.graph_def.node]
        for body in bodies:
            nodes = {node.name: node for node in body}
            epsilons |= {round(node.attr["epsilon"].f, 9) for node in body if node.op.startswith("FusedBatchNorm")}
            scalings |= {scaling(nodes, node.input[0]) for node in body if is_stem(node)}
    return {"epsilons": sorted(epsilons), "scalings": sorted(scalings - {None})}


def main(prefix, out, saved_model=None):
    np.savez(pathlib.Path(out) / "variables.npz", **variables(prefix))
    description = {"epsilons": [], "scalings": []}
    if saved_model is not None:
        description = describe(saved_model_pb2.SavedModel.FromString(pathlib.Path(saved_model).read_bytes()))
    (pathlib.Path(out) / "graph.json").write_text(json.dumps(description))


main(*sys.argv[1:])
