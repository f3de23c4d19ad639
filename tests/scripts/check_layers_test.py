"""scripts/check_layers.py finds what it is there to find, and nothing in the tree as it is."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check(root):
    return subprocess.run([sys.executable, ROOT / "scripts/check_layers.py", root], capture_output=True, text=True)


class CheckLayers(unittest.TestCase):
    def planted(self, path, include):
        """The output for a tree with one good file and one planted line in `path`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("src/base/good.h", "#include <vector>\n"),
                               (path, f"// one\n#include <string>\n  # include {include}\n")):
                file = pathlib.Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return check(folder)

    def test_the_tree_keeps_its_layers(self):
        done = check(ROOT)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_each_violation_is_named_by_file_and_line(self):
        for path, include in (
            ("src/base/a.cpp", '"text/tokenizer.h"'),
            ("src/text/a.h", '"engine/runtime.h"'),
            ("src/kernels/a.cpp", '"device/device.h"'),
            ("src/device/cpu/a.cpp", '"device/ref/b.h"'),
            ("src/model/a.cpp", '"kernels/kernels.h"'),
            ("src/model/a.cpp", '"device/cpu/b.h"'),
            ("src/engine/a.cpp", '"text/tokenizer.h"'),
            ("src/apps/a.cpp", '"kernels/cpu/dot.inl"'),
            ("src/kernels/cpu/avx2.cpp", "<vector>"),
            ("src/kernels/cpu/avx2.cpp", '"base/check.h"'),
            ("src/model/a.h", '"base/json.h"'),
            ("src/engine/a.h", "<fmt/format.h>"),
            ("src/text/a.cpp", "<nlohmann/json.hpp>"),
            ("src/text/a.cpp", "<pcre2.h>"),
            ("src/engine/a.cpp", "<CLI/CLI.hpp>"),
            ("src/apps/a.cpp", "<boost/asio.hpp>"),
        ):
            with self.subTest(path=path, include=include):
                done = self.planted(path, include)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                # A tier's file may not even include <string>, the line before the planted one.
                self.assertIn(f"{path}:3: {include}: ", done.stdout)

    def test_a_folder_of_no_layer_is_refused(self):
        done = self.planted("src/misc/a.cpp", "<vector>")
        self.assertEqual((done.returncode, done.stdout), (1, "src/misc/a.cpp:1: this folder is in no layer\n"))

    def test_what_the_table_allows_passes(self):
        for path, include in (
            ("src/text/split_pcre2.cpp", "<pcre2.h>"),
            ("src/base/json.h", "<nlohmann/json.hpp>"),
            ("src/model/a.cpp", '"base/json.h"'),
            ("src/model/a.cpp", '"device/device.h"'),
            ("src/device/cpu/a.cpp", '"device/cpu/b.h"'),
            ("src/apps/a.cpp", '"device/device.h"'),
        ):
            with self.subTest(path=path, include=include):
                done = self.planted(path, include)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
