#!/bin/sh
# Checks that each instruction-set tier is sealed: its object defines exactly one symbol that other objects can see, its table.
#
# An inline function or template with external linkage would be compiled once a tier, and the linker keeps one copy for the
# whole program: perhaps the AVX-512 one, which then kills older machines far from any kernel.
#
# usage: isa_sealed.sh BUILD_DIR | OBJECT...
set -eu
[ $# -ge 1 ] || { echo "usage: isa_sealed.sh BUILD_DIR | OBJECT..." >&2; exit 2; }
if [ -d "$1" ]; then
  dir=$1
  set --
  for tier in scalar avx2 avx512; do
    object=$(find "$dir" -path "*kernels/cpu/$tier.cpp.o" | head -n 1)
    [ -n "$object" ] || { echo "isa_sealed: no object of $tier.cpp under $dir" >&2; exit 1; }
    set -- "$@" "$object"
  done
fi
status=0
for object in "$@"; do
  # Upper-case types are global; u, v and w are the weak and unique ones; U is merely used.
  symbols=$(nm "$object" | awk '$2 ~ /^[A-TV-Zuvw]$/ { print $3 }')
  count=$(printf '%s' "$symbols" | grep -c . || true)
  if [ "$count" -ne 1 ] || ! printf '%s' "$symbols" | grep -q 'Kernels'; then
    echo "isa_sealed: $object shows $count symbols, wanted its table alone:" $symbols >&2
    status=1
  fi
done
[ $status -eq 0 ] && echo "isa_sealed: $# objects sealed"
exit $status
