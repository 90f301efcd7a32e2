"""One way to open an onnxruntime session: one thread, no spinning, the same integer arithmetic on every processor."""

from __future__ import annotations

from typing import Any

from demur.errors import MissingExtra


def session(model: bytes) -> Any:
    """A session on the CPU that uses the calling thread alone; callers run it from several threads.

    Threads inside a run would spin on barriers, which collapses when cores are shared, and items are plenty: giving
    each thread its own item uses the cores better and keeps every result independent of the number of threads.

    Raises:
        MissingExtra: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingExtra("the offline encoder", extra="demo", module="onnxruntime") from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Processors without VNNI add int8 products in 16 bits, which saturates; this makes them take the exact path.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
