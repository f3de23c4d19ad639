"""scripts/setup.sh against a pretended package manager: what it asks for, when, and how often."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "scripts/setup.sh"
APT = """#!/bin/bash
echo "$DEBIAN_FRONTEND apt-get $*" >> "$CALLS"
[[ $1 == install && -e $FAIL ]] && { mv "$FAIL" "$FAIL.done"; exit 100; }
exit 0
"""
DPKG = """#!/bin/bash
case " $ABSENT " in *" ${!#} "*) echo "no packages found" >&2; exit 1 ;; esac
echo installed
"""


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.tools = self.folder / "bin"
        self.tools.mkdir()
        for tool in ("bash", "env", "cat", "mv"):
            (self.tools / tool).symlink_to(shutil.which(tool))
        self.tool("sleep", "#!/bin/bash\n")
        self.tool("id", "#!/bin/bash\necho ${USER_ID:-0}\n")

    def tool(self, name, text):
        (self.tools / name).write_text(text, encoding="utf-8")
        (self.tools / name).chmod(0o755)

    def setup(self, *words, **variables):
        calls = self.folder / "calls"
        calls.write_text("")
        done = subprocess.run(["bash", SETUP, *words], capture_output=True, text=True, env={
            "PATH": str(self.tools), "CALLS": str(calls), "FAIL": str(self.folder / "fail"), "ABSENT": "", **variables})
        return done, calls.read_text().splitlines()

    def with_apt(self):
        self.tool("apt-get", APT)
        self.tool("dpkg-query", DPKG)

    def test_nothing_happens_when_all_is_there(self):
        self.with_apt()
        for word in ("run", "test"):
            done, calls = self.setup(word)
            self.assertEqual((done.returncode, done.stdout, done.stderr, calls), (0, "", "", []))

    def test_only_what_is_missing_is_installed_and_named(self):
        self.with_apt()
        done, calls = self.setup("run", ABSENT="ninja-build libfmt-dev libgtest-dev")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls, ["noninteractive apt-get update -q",
                                 "noninteractive apt-get install -q -y --no-install-recommends ninja-build libfmt-dev"])
        self.assertIn("installing ninja-build libfmt-dev", done.stderr)
        done, calls = self.setup("test", ABSENT="libgtest-dev")
        self.assertTrue(calls[1].endswith("--no-install-recommends libgtest-dev"), calls)

    def test_a_failed_install_is_tried_once_more(self):
        self.with_apt()
        (self.folder / "fail").write_text("")
        done, calls = self.setup("run", ABSENT="cmake")
        self.assertEqual((done.returncode, len(calls)), (0, 4), done.stderr)

    def test_a_user_without_sudo_is_told_the_command(self):
        self.with_apt()
        done, calls = self.setup("run", ABSENT="cmake", USER_ID="1000")
        self.assertEqual((done.returncode, calls), (1, []))
        self.assertIn("as root, run: apt-get install cmake", done.stderr)

    def test_a_user_with_sudo_installs_through_it(self):
        self.with_apt()
        self.tool("sudo", '#!/bin/bash\necho "sudo $*" >> "$CALLS"\n')
        done, calls = self.setup("run", ABSENT="cmake", USER_ID="1000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls[0], "sudo env DEBIAN_FRONTEND=noninteractive apt-get update -q")

    def test_without_apt_what_is_missing_is_said(self):
        done, _ = self.setup("run")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not found: g++ cmake ninja pkg-config", done.stderr)
        self.assertIn("by hand what Debian calls: build-essential", done.stderr)
        for tool in ("g++", "cmake", "ninja", "pkg-config"):
            self.tool(tool, "#!/bin/bash\n")
        done, _ = self.setup("run")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_unknown_word_is_a_usage_error(self):
        done, _ = self.setup("everything")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
