#!/usr/bin/env bash
# runs/shakespeare-char.toml on a text, whole runs: seconds and validation loss in f32 and bf16, on 1 and 2 ranks. The
# published loss of this setting, on 1 MB of Shakespeare, is 1.88.
#   bench/shakespeare_char.sh TEXT [more options of cleave train]
set -euo pipefail
cd "$(dirname "$0")/.."
text=$(realpath "${1:?the text to train on}")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
field() { sed -nE "s/.*\"$1\": ([^,}]+).*/\1/p" <<<"$2"; }

grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'
printf '%6s %6s %9s %16s\n' dtype ranks seconds 'validation loss'
for dtype in f32 bf16; do
    for ranks in 1 2; do
        result=$(build/release/cleave train runs/shakespeare-char.toml --json --ranks "$ranks" --set "data.path=$text" \
            --set "train.dtype=$dtype" --set "run.folder=$folder/$dtype-$ranks" "$@" 2>"$folder/log") || {
            cat "$folder/log" >&2
            exit 1
        }
        printf '%6s %6s %9.1f %16.4f\n' "$dtype" "$ranks" "$(field seconds "$result")" "$(field validation_loss "$result")"
    done
done
