"""A registry for npm with the packages of one folder: registry.py FOLDER PORT_FILE. Serves on loopback until it is ended."""

import base64
import hashlib
import http.server
import json
import pathlib
import sys
import tarfile

folder, port_file = map(pathlib.Path, sys.argv[1:])
packages = {}
for path in folder.glob("*.tgz"):
    with tarfile.open(path) as archive:
        manifest = json.load(archive.extractfile("package/package.json"))
    packages[manifest["name"]] = (path, manifest)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.strip("/")
        if name.endswith(".tgz") and (folder / name).is_file():
            return self.answer((folder / name).read_bytes(), "application/octet-stream")
        if name not in packages:
            return self.send_error(404)
        path, manifest = packages[name]
        sum = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        port = self.server.server_address[1]
        dist = {"tarball": f"http://127.0.0.1:{port}/{path.name}", "integrity": f"sha512-{sum}"}
        version = manifest["version"]
        document = {"name": name, "dist-tags": {"latest": version}, "versions": {version: {**manifest, "dist": dist}}}
        self.answer(json.dumps(document).encode(), "application/json")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
port_file.write_text(str(server.server_address[1]))
server.serve_forever()
