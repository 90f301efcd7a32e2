"""A service that knows nothing of demur, for tests that ask one."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def service(reply):
    """A server that answers each POST with ``reply(n, headers, body) -> (status, headers, bytes)``."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((dict(self.headers), body))
            status, headers, data = reply(len(asked), dict(self.headers), body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ask", asked
    finally:
        server.shutdown()
        server.server_close()


def as_json(value, **headers):
    return 200, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()
