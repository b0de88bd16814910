"""Something between a client and its service that passes requests on, but no streams: as some proxies are."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx


class Between:
    """Something between client and service that passes requests on, but no streams."""

    def __init__(self, url: str) -> None:
        self.streams_refused = 0
        between = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                if self.path.endswith("/presence"):
                    between.streams_refused += 1
                    self._reply(405, json.dumps({"code": "no_streams"}).encode())
                    return
                length = int(self.headers.get("Content-Length", 0))
                headers = {
                    name: text for name, text in self.headers.items() if name.lower() not in ("host", "accept-encoding")
                }
                answer = httpx.request(
                    self.command, url + self.path, content=self.rfile.read(length), headers=headers, trust_env=False
                )
                self._reply(answer.status_code, answer.content)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any

            def _reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
