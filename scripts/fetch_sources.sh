#!/usr/bin/env bash
# Fetches the source archives of third_party/pypi.lock and checks their SHA-256. Silent, and needs no network, when all
# are there. Exit code 1, with one line that says what is missing without them, when one cannot be had.
# Usage: scripts/fetch_sources.sh     (cache: $MINIM_DEPS_CACHE, else ~/.cache/minim-deps)
set -uo pipefail

lock=$(dirname "$0")/../third_party/pypi.lock
cache=${MINIM_DEPS_CACHE:-$HOME/.cache/minim-deps}

check() { [[ -f $1 ]] && echo "$2  $1" | sha256sum --check --status 2>/dev/null; }

give_up() {
  echo "structured output will not be part of this build: $1" >&2
  exit 1
}

# pip compares the hash before it lets the package's build backend read the metadata; --no-binary names only this
# package, because with ":all:" the build backends would be built from source as well.
fetch() {
  local requirement=$1 sha=$2 file=$3 tmp
  tmp=$(mktemp -d "$cache/.dl.XXXXXX") || give_up "cannot write to $cache"
  trap 'rm -rf "$tmp"' RETURN
  printf '%s --hash=sha256:%s\n' "$requirement" "$sha" > "$tmp/requirements.txt"
  echo "fetching the source of $requirement" >&2
  timeout 300 python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 15 --no-deps \
    --require-hashes --no-binary "${requirement%%==*}" -d "$tmp" -r "$tmp/requirements.txt" > "$tmp/log" 2>&1 ||
    return 1
  check "$tmp/$file" "$sha" && mv "$tmp/$file" "$cache/$file"
}

mkdir -p "$cache" 2>/dev/null || give_up "cannot write to $cache"
while read -r requirement sha file; do
  case $requirement in '' | '#'*) continue ;; esac
  check "$cache/$file" "$sha" && continue
  python3 -m pip --version >/dev/null 2>&1 || give_up "python3 with pip is needed to fetch $requirement"
  fetch "$requirement" "$sha" "$file" || give_up "$requirement could not be fetched"
done < "$lock"
