#!/usr/bin/env bash
# Writes the text that the demo learns, the King James Bible of Debian's bible-kjv package (4 MB), to the file named:
#   scripts/demo_text.sh OUT
# One verse a line without its reference, an empty line before a new chapter.
set -euo pipefail
out=${1:?usage: $0 OUT}
mkdir -p "$(dirname "$out")"
PATH=$PATH:/usr/games
bible -f gen1:1-rev22:21 </dev/null | awk '
    { chapter = $1; sub(/:.*/, "", chapter) }
    NR > 1 && chapter != previous { print "" }
    { previous = chapter; sub(/^[^ ]+ /, ""); print }' >"$out.tmp"
size=$(wc -c <"$out.tmp")
if ((size < 1000000)); then
    echo "$0: 'bible' printed $size bytes, at least 1000000 were expected" >&2
    exit 1
fi
mv "$out.tmp" "$out"
