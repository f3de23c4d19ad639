#!/usr/bin/env bash
# Installs the Debian packages that minim needs: those of the program (run), or those of its tests too (test).
# Says what it installs; does nothing, and needs no network, when all is there.
# Usage: scripts/setup.sh [run|test]
set -euo pipefail

run_packages=(build-essential cmake ninja-build pkg-config ccache
              libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libedit-dev
              libsqlite3-dev libxxhash-dev)
# python3 and pip fetch xgrammar's source, and the chat template of the family for one test; without them structured
# output is off and the tests of both are skipped.
test_packages=(git python3 python3-pip python3-jsonschema libgtest-dev libgmock-dev
               clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev)

libraries=(fmt nlohmann_json CLI11 libpcre2-8 libedit sqlite3 libxxhash)  # as pkg-config calls them
case ${1:-run} in
  run) wanted=("${run_packages[@]}") ;;
  test) wanted=("${run_packages[@]}" "${test_packages[@]}"); libraries+=(gtest gmock) ;;
  *) echo "usage: scripts/setup.sh [run|test]" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  missing=()
  for tool in g++ cmake ninja pkg-config; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  if command -v pkg-config >/dev/null; then
    for library in "${libraries[@]}"; do
      pkg-config --exists "$library" || missing+=("$library")
    done
  fi
  [[ ${#missing[@]} -eq 0 ]] && exit 0
  echo "setup: no apt here, and these are not found: ${missing[*]}" >&2
  echo "setup: please install by hand what Debian calls: ${wanted[*]}" >&2
  exit 1
fi

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}
missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }
install() { apt update -q && apt install -q -y --no-install-recommends "${missing[@]}"; }

echo "setup: installing ${missing[*]}" >&2
install >&2 || { echo "setup: that failed; trying once more" >&2; sleep 5; install >&2; }
