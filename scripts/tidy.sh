#!/usr/bin/env bash
# clang-tidy over every source of src, on all cores; the checks and their reasons are in .clang-tidy.
# Takes the compile commands of the `tidy` preset. Exit: 0 when there are no findings.
set -uo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(find src -name '*.cpp' -printf '%s %p\n' | sort -rn | cut -d ' ' -f 2)  # the long ones first
if ! printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/tidy --quiet 2> >(grep -vE 'warnings? (generated|treated)|^Suppressed|^Use -header' >&2); then
    echo "clang-tidy: findings above" >&2
    exit 1
fi
echo "clang-tidy: ${#sources[@]} files, no findings"
