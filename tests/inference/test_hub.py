"""A model to a hub and back, on a server of this machine that speaks the hub's language."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.hub import from_hub, to_hub

COMMIT = "0" * 39 + "1"


class Hub(BaseHTTPRequestHandler):
    """The requests by which a repository is made, filled and read."""

    files: dict[str, bytes] = {}  # noqa: RUF012

    def answer(self, status, value=b"", **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        here = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/api/repos/create":
            self.answer(200, {"url": f"{here}/me/shop", "name": "me/shop"})
        elif self.path == "/api/validate-yaml":
            self.answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            asked = json.loads(body)["files"]
            self.answer(200, {"files": [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for one in asked
            ]})  # fmt: skip
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    self.files[value["path"]] = base64.b64decode(value["content"])
            self.answer(200, {"commitUrl": f"{here}/me/shop/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self.answer(404, {"error": self.path})

    def do_GET(self):
        name = self.path.rpartition("/")[2].partition("?")[0]
        if "/resolve/" in self.path and name in self.files:
            mark = {"ETag": f'"{name}"', "X_Repo_Commit": COMMIT}
            self.answer(200, self.files[name], **mark)
        elif "/api/models/me/shop" in self.path:
            names = [{"rfilename": name} for name in self.files]
            self.answer(200, {"id": "me/shop", "sha": COMMIT, "siblings": names})
        else:
            self.answer(404, {"error": self.path}, X_Error_Code="EntryNotFound")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    programs = tmp_path / "programs.json"  # the client asks the real hub for this list once a day
    programs.write_text('{"standardEnvVars": [], "harnesses": {}}')
    monkeypatch.setattr(hub.constants, "AGENT_HARNESSES_PATH", str(programs), raising=False)
    real, download = hub.HfApi, hub.hf_hub_download
    monkeypatch.setattr(hub, "HfApi", lambda: real(endpoint=here, token="hf_test"))
    monkeypatch.setattr(
        hub,
        "hf_hub_download",
        lambda *given, **options: download(
            *given, **options, endpoint=here, cache_dir=tmp_path / "cache", token=False
        ),
    )
    Hub.files.clear()
    yield here
    server.shutdown()


def test_a_model_goes_to_the_hub_and_comes_back(hub):
    embedder = Embedder.from_network("small-cnn", weights="none")
    assert to_hub(embedder, "me/shop").endswith("me/shop")
    assert {"model.json", "weights.safetensors", "README.md"} <= Hub.files.keys()
    again = Embedder.open("hub:me/shop")
    assert again.fingerprint == embedder.fingerprint
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(again.model(images), embedder.model(images))


def test_what_is_not_there_or_misnamed_gets_a_sentence(hub):
    with pytest.raises(LookalikeError, match="'hub:me/shop' cannot be fetched"):
        from_hub("hub:me/shop")
    with pytest.raises(BadInput, match="write hub:OWNER/NAME"):
        from_hub("hub:shop")
    with pytest.raises(BadInput, match="write OWNER/NAME"):
        to_hub(Embedder.from_network("small-cnn", weights="none"), "shop")
