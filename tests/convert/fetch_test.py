#!/usr/bin/env python3
"""tools/fetch_weights.sh against a server on the loopback interface: what it downloads is checked, or deleted."""
import hashlib
import http.server
import io
import os
import subprocess
import tarfile
import threading
import unittest

import support
import small_files
from support import Case

SCRIPT = support.ROOT / "tools" / "fetch_weights.sh"


class Server(http.server.BaseHTTPRequestHandler):
    files = {}  # path -> content
    promised_bytes = 0  # more than are sent, for a connection that breaks off

    def do_GET(self):
        content = self.files.get(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"") + self.promised_bytes))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


class FetchWeights(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.address = f"http://127.0.0.1:{server.server_port}"
        small_files.write(cls.folder / "network.npz", support.made_up(small_files.WIDTH))
        cls.content = (cls.folder / "network.npz").read_bytes()
        cls.sha256 = hashlib.sha256(cls.content).hexdigest()

    def setUp(self):
        Server.files = {"/network.npz": self.content}
        Server.promised_bytes = 0
        self.out = self.folder / self.id().split(".")[-1]

    def fetch(self, line, name="ours"):
        sources = self.folder / "sources.txt"
        sources.write_text(f"# name licence sha256 url\n{line.format(address=self.address)}\n")
        environment = {**os.environ, "CISTERN_WEIGHTS_SOURCES": str(sources), "no_proxy": "127.0.0.1"}
        return subprocess.run([SCRIPT, name, self.out], env=environment, capture_output=True, text=True)

    def left(self):
        return sorted(os.listdir(self.out)) if self.out.exists() else []

    def test_weights_of_the_right_sha256_are_converted_and_their_card_says_whence(self):
        result = self.fetch(f"ours MIT {self.sha256} {{address}}/network.npz")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.left(), ["ours-network.npz", "ours.log", "ours.safetensors"])
        card, _ = support.read_weights(self.out / "ours.safetensors")
        self.assertEqual((card["origin"], card["source_sha256"]), (f"{self.address}/network.npz (MIT)", self.sha256))

    def test_what_is_there_already_is_checked_and_not_downloaded_again(self):
        line = f"ours MIT {self.sha256} {{address}}/network.npz"
        self.fetch(line)
        Server.files = {}
        self.assertEqual(self.fetch(line).returncode, 0)
        (self.out / "ours-network.npz").write_bytes(b"damaged")
        self.assertIn("deleted it", self.fetch(line).stderr)
        self.assertNotIn("ours-network.npz", self.left())

    def test_a_wrong_sha256_deletes_the_file_and_says_so(self):
        Server.files = {"/network.npz": self.content[:-1] + b"!"}
        result = self.fetch(f"ours MIT {self.sha256} {{address}}/network.npz")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
        self.assertIn(f"instead of {self.sha256}; deleted it", result.stderr)
        self.assertEqual(self.left(), [])

    def test_without_a_published_sha256_the_first_download_is_recorded_and_a_later_one_must_be_the_same(self):
        line = "ours MIT - {address}/network.npz"
        result = self.fetch(line)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.out / "recorded.sha256").read_text(), f"{self.sha256} ours\n")
        self.assertIn(f"recorded in {self.out}/recorded.sha256: {self.sha256}", result.stdout)
        (self.out / "ours-network.npz").unlink()
        Server.files = {"/network.npz": b"something else"}
        result = self.fetch(line)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"instead of {self.sha256}; deleted it", result.stderr)
        self.assertNotIn("ours-network.npz", self.left())

    def test_a_file_within_an_archive_is_taken_out(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(self.folder / "network.npz", "./network.npz")
        Server.files = {"/network.tgz": packed.getvalue()}
        sha256 = hashlib.sha256(packed.getvalue()).hexdigest()
        result = self.fetch(f"ours MIT {sha256} {{address}}/network.tgz network.npz")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.left(), ["ours-network.tgz", "ours.log", "ours.safetensors"])

    def test_a_download_that_fails_or_breaks_off_leaves_nothing_and_says_so_in_one_line(self):
        for path, promised in (("absent.npz", 0), ("network.npz", 100)):
            Server.promised_bytes = promised
            result = self.fetch(f"ours MIT {self.sha256} {{address}}/{path}")
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(f"{self.address}/{path} could not be downloaded: curl", result.stderr)
            self.assertEqual(self.left(), [])

    def test_a_file_that_cannot_be_converted_is_named(self):
        Server.files = {"/network.npz": b"no network"}
        sha256 = hashlib.sha256(b"no network").hexdigest()
        result = self.fetch(f"ours MIT {sha256} {{address}}/network.npz")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
        self.assertIn("ours-network.npz is no NumPy archive", result.stderr)
        self.assertNotIn("ours.safetensors", self.left())

    def test_an_unknown_name_is_refused_with_the_names_there_are(self):
        result = self.fetch(f"ours MIT {self.sha256} {{address}}/network.npz", name="theirs")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no weights are called theirs; known: ours", result.stderr)

    def test_the_list_of_official_files_is_well_formed(self):
        lines = (support.ROOT / "weights" / "sources.txt").read_text().splitlines()
        entries = [line.split() for line in lines if not line.startswith("#")]
        self.assertIn("torchvision", [entry[0] for entry in entries])
        for entry in entries:
            self.assertIn(len(entry), (4, 5), entry)
            self.assertRegex(entry[2], r"^([0-9a-f]{64}|-)$")
            self.assertTrue(entry[3].startswith("https://"), entry)


if __name__ == "__main__":
    unittest.main()
