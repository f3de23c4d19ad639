#!/usr/bin/env bash
# Fetches MiniMax-M3's chat template for the test that checks its rendering against four known hashes. The file travels
# inside a pinned PyPI source archive; only that one file is kept, in the cache directory, after its own hash was checked.
# A second run with a filled cache needs no network. Prints the template's path.
# Usage: scripts/fetch_m3_template.sh     (cache: $MINIM_DEPS_CACHE, else ~/.cache/minim-deps)
set -euo pipefail

package=llama_cpp_python
version=0.3.36
archive_sha=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
template_sha=11421244f67553498e5c8112dae02802025bcc4305ec45ad380af95c96f9fe64
member=$package-$version/vendor/llama.cpp/models/templates/MiniMax-M3.jinja

cache=${MINIM_DEPS_CACHE:-$HOME/.cache/minim-deps}
target=$cache/MiniMax-M3.jinja
mkdir -p "$cache"

check() { echo "$2  $1" | sha256sum --check --status; }

if [[ -f $target ]] && check "$target" "$template_sha"; then
  echo "$target"
  exit 0
fi

tmp=$(mktemp -d "$cache/.dl.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
archive=$cache/$package-$version.tar.gz
if ! { [[ -f $archive ]] && check "$archive" "$archive_sha"; }; then
  # pip compares the archive's hash before it lets the package's build backend read the metadata; --no-binary names
  # only this package, because with ":all:" the build backends would be built from source as well.
  printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$archive_sha" > "$tmp/requirements.txt"
  echo "fetching $package $version (77 MB) for its MiniMax-M3.jinja" >&2
  python3 -m pip download --quiet --no-deps --require-hashes --no-binary "$package" -d "$tmp" \
    -r "$tmp/requirements.txt" >&2
  archive=$tmp/$package-$version.tar.gz
fi
check "$archive" "$archive_sha" || { echo "wrong checksum: $archive" >&2; exit 1; }
tar -xzf "$archive" -C "$tmp" "$member"
check "$tmp/$member" "$template_sha" || { echo "wrong checksum: $member" >&2; exit 1; }
mv "$tmp/$member" "$target"
echo "$target"
