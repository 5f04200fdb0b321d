#!/usr/bin/env bash
# clang-tidy over every source of src, on all cores; the checks and their reasons are in .clang-tidy.
# Takes the compile commands of the `tidy` preset, which compiles several files as one: clang-tidy's time goes into the headers
# that they share. Exit: 0 when there are no findings.
set -uo pipefail
cd "$(dirname "$0")/.."
# The joined files first, which take longest.
mapfile -t sources < <(sed -nE 's/^ *"file": "(.*\/src\/.*)",?$/\1/p' build/tidy/compile_commands.json |
    awk '{ print ($0 ~ /Unity/ ? 0 : 1), $0 }' | sort | cut -d ' ' -f 2-)
if ! printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/tidy --quiet 2> >(grep -vE 'warnings? (generated|treated)|^Suppressed|^Use -header' >&2); then
    echo "clang-tidy: findings above" >&2
    exit 1
fi
echo "clang-tidy: $(find src -name '*.cpp' | wc -l) files in ${#sources[@]} parts, no findings"
