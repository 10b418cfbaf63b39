"""A MyCloud on this machine, with one machine: python3 cloud.py"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

MACHINES = [
    {"id": "7", "name": "node-1", "size": "small", "zone": "north-1", "region": "north", "status": "on",
     "private_ip": "10.0.0.7"},
]


class Cloud(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        names = parse_qs(url.query).get("name")
        listed = [machine for machine in MACHINES if names is None or machine["name"] in names]
        found = [machine for machine in MACHINES if url.path == f"/v1/machines/{machine['id']}"]
        if url.path == "/v1/machines":
            self.answer(200, {"machines": listed, "total": len(listed)})
        elif found:
            self.answer(200, {"machine": found[0]})
        else:
            self.answer(404, {"message": "no such machine"})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8080), Cloud).serve_forever()
