#!/usr/bin/env bash
# Runs every fuzz target of a build for some seconds, from its seeds and from what earlier runs found.
# Usage: scripts/fuzz.sh BUILD_DIR SECONDS JOBS [LONG_SECONDS LONG_TARGETS]
# LONG_TARGETS: names, separated by blanks, that run for at least LONG_SECONDS.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1 seconds=$2 jobs=$3 long_seconds=${4:-$2} long_targets=" ${5:-} "

run_one() {
  local target=$1 name log time=$seconds
  name=$(basename "$target")
  if [[ $long_targets == *" $name "* && $long_seconds -gt $time ]]; then time=$long_seconds; fi
  log=$build/fuzz/$name.log
  mkdir -p "$build/fuzz/found/$name"
  local corpora=("$build/fuzz/found/$name")
  [[ -d $root/fuzz/corpus/$name ]] && corpora+=("$root/fuzz/corpus/$name")
  if "$target" -max_total_time="$time" -seed=1 -timeout=10 -rss_limit_mb=2048 -verbosity=1 \
      -artifact_prefix="$build/fuzz/$name." "${corpora[@]}" >"$log" 2>&1; then
    echo "fuzz: $name: $(tail -n 1 "$log" | tr 'D' 'd')"
  else
    echo "fuzz: $name FAILED; input and log are $build/fuzz/$name.*"
    tail -n 40 "$log"
    return 1
  fi
}
export -f run_one
export root build seconds long_seconds long_targets

shopt -s nullglob
targets=("$build"/fuzz/*_fuzz)
[[ ${#targets[@]} -gt 0 ]] || { echo "fuzz: no targets in $build/fuzz" >&2; exit 1; }
printf '%s\0' "${targets[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'run_one {}'
