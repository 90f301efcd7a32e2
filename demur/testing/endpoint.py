"""``python -m demur.testing.endpoint``: the fake endpoint as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from demur.core.errors import UsageError
from demur.testing.fake import FAULTS, FakeEndpoint, echo


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the first line on standard output is the base URL."""
    parser = argparse.ArgumentParser(
        prog="python -m demur.testing.endpoint",
        description="A chat-completions server whose faults are scripted.",
        epilog=f"faults: {', '.join(FAULTS)}\nexample: python -m demur.testing.endpoint --faults '429=10%,reset=5%'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=int, default=8099, help="0 picks a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--faults", default="", help="'429*2,ok,reset', '429=10%%,reset=5%%' or '30%%'"
    )
    parser.add_argument(
        "--latency", type=float, default=0.0, metavar="S", help="seconds before it answers"
    )
    parser.add_argument(
        "--stall", type=float, default=30.0, metavar="S", help="seconds that a stall lasts"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--most-faults", type=int, default=3, help="faults at most for one request")
    parser.add_argument("--text", default=None, help="answer every request with this text")
    options = parser.parse_args(argv)
    text: str | None = options.text

    async def serve() -> None:
        async with server:
            sys.stdout.write(f"{server.url}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    try:
        server = FakeEndpoint(
            options.faults,
            reply=echo if text is None else lambda _: str(text),
            latency_s=options.latency,
            stall_s=options.stall,
            most_faults=options.most_faults,
            seed=options.seed,
            port=options.port,
        )
        asyncio.run(serve())
    except UsageError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"cannot listen on port {options.port}: {error} - choose another --port\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
