"""scripts/fetch_sources.sh against a pretended pip: what it fetches, what it keeps, what it says without network."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
CONTENT = "an archive"
# "pip download" writes what $CONTENT says into the folder behind -d; without $CONTENT there is no network.
PYTHON = """#!/bin/bash
[[ $* == *--version* ]] && { [[ -n $NO_PIP ]] && exit 1; exit 0; }
echo "$*" >> "$CALLS"
[[ -n $CONTENT ]] || { echo "no network" >&2; exit 1; }
while [[ $1 != -d ]]; do shift; done
printf %s "$CONTENT" > "$2/thing-1.0.tar.gz"
"""


class FetchSources(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("bin", "scripts", "third_party"):
            (self.folder / name).mkdir()
        shutil.copy(SCRIPTS / "fetch_sources.sh", self.folder / "scripts")
        sha = hashlib.sha256(CONTENT.encode()).hexdigest()
        (self.folder / "third_party/pypi.lock").write_text(f"# comment\nthing==1.0 {sha} thing-1.0.tar.gz\n")
        (self.folder / "bin/python3").write_text(PYTHON)
        (self.folder / "bin/python3").chmod(0o755)
        self.archive = self.folder / "cache/thing-1.0.tar.gz"

    def fetch(self, **variables):
        calls = self.folder / "calls"
        calls.write_text("")
        done = subprocess.run(["bash", self.folder / "scripts/fetch_sources.sh"], capture_output=True, text=True, env={
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls), "CONTENT": "", "NO_PIP": "",
            "MINIM_DEPS_CACHE": str(self.folder / "cache"), **variables}, check=False)
        return done, calls.read_text().splitlines()

    def test_an_archive_is_fetched_once(self):
        done, calls = self.fetch(CONTENT=CONTENT)
        self.assertEqual((done.returncode, len(calls)), (0, 1), done.stderr)
        self.assertIn("--require-hashes --no-binary thing", calls[0])
        self.assertEqual(self.archive.read_text(), CONTENT)
        done, calls = self.fetch()
        self.assertEqual((done.returncode, done.stdout, done.stderr, calls), (0, "", "", []))
        self.assertEqual(os.listdir(self.folder / "cache"), ["thing-1.0.tar.gz"])

    def test_another_content_is_not_kept(self):
        done, _ = self.fetch(CONTENT="something else")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(os.listdir(self.folder / "cache"), [])

    def test_a_spoilt_archive_is_fetched_anew(self):
        self.archive.parent.mkdir()
        self.archive.write_text("half")
        done, _ = self.fetch(CONTENT=CONTENT)
        self.assertEqual((done.returncode, self.archive.read_text()), (0, CONTENT))

    def test_without_network_or_pip_one_line_says_what_is_missing(self):
        for variables in ({}, {"NO_PIP": "1"}):
            done, _ = self.fetch(**variables)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("structured output will not be part of this build", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
