#!/usr/bin/env python3
"""Checks every #include under src/ against the layers of ARCHITECTURE.md.

Usage: check_layers.py [ROOT]. Prints "file:line: what is wrong" for each violation; exit code 1 if there is one.
"""

import pathlib
import re
import sys

# What a folder may include: folders, or single headers of one. A layer may always include itself.
LAYERS = {
    "base": [],
    "text": ["base/"],
    "kernels": ["base/"],
    "device": ["kernels/kernels.h", "kernels/panel.h", "base/"],
    "model": ["device/", "base/"],
    "engine": ["model/", "device/device.h", "device/kv_layout.h", "kernels/kernels.h", "base/"],
    "apps": ["engine/", "text/", "model/", "device/", "kernels/", "base/"],
}

# Folders that nobody outside them looks into; a device is made by device.h, a tier chosen by kernels.h.
PRIVATE = {"kernels/cpu/": "kernels/", "device/cpu/": "device/cpu/", "device/ref/": "device/ref/"}

# The files of one instruction-set tier are compiled with its flags: all they may share with the rest of the program
# is what cannot be merged by the linker.
TIER = re.compile(r"kernels/cpu/")
TIER_MAY = re.compile(r"<(immintrin\.h|cstdint|cstddef|cstring|cmath|limits|bit)>|\"(base/formats\.h|kernels/.*)\"")

# Libraries: which files may include them. A library that is not in this table is not used.
LIBRARIES = {
    "fmt/": r"(base|text|kernels|device|model|engine|apps)/([^/]*/)?[^/]*\.cpp|base/[^/]*",
    "nlohmann/": r"(base/json|text/tokenizer_json)\.h|model/safetensors_header\.cpp",
    "pcre2.h": r"text/[^/]*pcre2\.cpp",
    "xgrammar/": r"text/grammar_xgrammar\.cpp",
    "dlpack/": r"text/grammar_xgrammar\.cpp",
    "sqlite3.h": r"engine/disk_index_sqlite\.cpp",
    "xxhash.h": r"engine/segment_file\.cpp",
    "CLI/": r"apps/[^/]*\.cpp",
    "histedit.h": r"apps/[^/]*\.cpp",
    "editline/": r"apps/[^/]*\.cpp",
}
JSON_FREE = re.compile(r"(kernels|device|model|engine)/.*\.(h|inl)")
SYSTEM = re.compile(
    r"[a-z_0-9]+"  # C++
    r"|(locale|stdio|stdlib|string|signal|time)\.h"  # C
    r"|(sys|linux)/\w+\.h|(dirent|fcntl|poll|pthread|sched|termios|unistd)\.h"  # POSIX and Linux
    r"|(cpuid|immintrin|xmmintrin)\.h")  # processor


def violation(path, include):
    """What is wrong with this include in this file (both relative to src/), or None."""
    name = include[1:-1]
    layer = path.split("/")[0]
    if TIER.match(path) and not TIER_MAY.fullmatch(include):
        return "a tier's file may include only the intrinsics, base/formats.h and kernels/"
    if include[0] == '"':
        for folder, home in PRIVATE.items():
            if name.startswith(folder) and not path.startswith(home):
                return f"{folder} is private to {home}"
        if name == "base/json.h" and JSON_FREE.fullmatch(path):
            return "a header of this layer may not speak JSON"
        if not any(name.startswith(allowed) for allowed in [layer + "/", *LAYERS[layer]]):
            return f"{layer} may include only itself and: {' '.join(LAYERS[layer]) or 'nothing of ours'}"
        return None
    for prefix, files in LIBRARIES.items():
        if name.startswith(prefix):
            return None if re.fullmatch(files, path) else f"<{prefix}...> belongs in {files}"
    return None if SYSTEM.fullmatch(name) else "a library that scripts/check_layers.py does not list"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    bad = 0
    for file in sorted((root / "src").rglob("*")):
        if file.suffix not in {".h", ".cpp", ".inl", ".inc"}:
            continue
        path = file.relative_to(root / "src").as_posix()
        if path.split("/")[0] not in LAYERS:
            print(f"src/{path}:1: this folder is in no layer")
            bad += 1
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")', line)
            reason = found and violation(path, found.group(1))
            if reason:
                print(f"src/{path}:{number}: {found.group(1)}: {reason}")
                bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
