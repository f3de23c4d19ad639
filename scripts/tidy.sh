#!/usr/bin/env bash
# clang-tidy on the sources under src/ that differ from a commit (and on those that are not committed), or on all.
# Usage: scripts/tidy.sh BUILD_DIR JOBS [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2 commit=${3:-}

# A clone without that commit (the first one, or a shallow clone) has everything to read.
if [[ -n $commit ]] && git rev-parse -q --verify "$commit^{commit}" >/dev/null; then
  files=$(git diff --name-only --diff-filter=d "$commit" -- 'src/*.cpp')
else
  files=$(git ls-files 'src/*.cpp')
fi
[[ -n $files ]] || { echo "tidy: no source changed"; exit 0; }
echo "tidy: $(wc -l <<<"$files") files"
# g++'s own warning flags stand in the compilation database.
xargs -P "$jobs" -n 1 clang-tidy-14 --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option <<<"$files" 2> >(grep -v 'warnings\? generated' >&2)
