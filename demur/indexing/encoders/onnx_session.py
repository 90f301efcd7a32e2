"""One way to open an onnxruntime session: one thread, no spinning, exact 8-bit products on every processor."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from demur.core.errors import importing
from demur.indexing.encoders.weights import read_or_build


def session(model: bytes) -> Any:
    """A session on the CPU that uses the calling thread alone; callers run it from several threads.

    Threads inside a run would spin on barriers, which collapses when cores are shared, and items are plenty: giving
    each thread its own item uses the cores better and keeps every result independent of the number of threads.

    Raises:
        MissingExtra: onnxruntime or onnx is not installed.
    """
    return _open_session(model, exact=_saturates_here())


def _open_session(model: bytes, *, exact: bool) -> Any:
    with importing("the offline encoder", extra="demo"):
        import onnx  # noqa: F401 - it builds the graphs: missed here rather than when the cache is empty
        import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.x64quantprecision", "1" if exact else "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


_PROBE = 64


def _saturating_product() -> bytes:
    """A product whose 8-bit terms are all as large as they can be."""
    from onnx import TensorProto, helper, numpy_helper

    constants = [
        numpy_helper.from_array(np.full((_PROBE, _PROBE), 127, np.int8), "w"),
        numpy_helper.from_array(np.ones(1, np.float32), "s"),
    ]
    network = helper.make_graph(
        [helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")],
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [_PROBE, _PROBE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [_PROBE, _PROBE])],
        constants,
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(
        helper.make_model(network, opset_imports=domains, ir_version=8).SerializeToString()
    )


@cache
def _saturates_here() -> bool:
    """Whether this processor's quick 8-bit products are wrong for large terms.

    x86 processors without VNNI add pairs of them in 16 bits, which saturates at 32,767; onnxruntime then has a slower
    exact way (1.6 times as slow where both were measured). Trying it out once is surer than reading processor flags.
    """
    probe = read_or_build("saturation-probe.onnx", [], __file__, _saturating_product)
    product = _open_session(probe, exact=False).run(
        None, {"x": np.ones((_PROBE, _PROBE), np.float32)}
    )[0]
    return not np.allclose(product, 127 * _PROBE, rtol=1e-3)
