#!/usr/bin/env bash
# Checks what the compiler does not: the rooms' include direction and the house rules for files.
#   scripts/check_includes.sh [ROOT]        checks a tree (default: this one); exit 1 with one line a finding
#   scripts/check_includes.sh --self-test   plants each kind of violation in a small tree and expects it to be found
set -euo pipefail

# A room may include itself and rooms of a smaller number. ARCHITECTURE.md, "Rooms", draws the same.
declare -A level=(
    [base]=1 [placement]=2 [comm]=3 [kernels]=3 [cluster]=3 [engine]=4 [parallel]=5 [model]=6 [train]=7
    [plan]=8 [fault]=8 [config]=9 [cli]=10
)
# Headers that are slow to compile or tie a room to a library: header pattern, where it may stand, in how many files.
heavy=(
    'toml\+\+/|toml\.hpp     src/config/*.cpp    2'
    'nlohmann/               src/base/json.cpp   1'
    'CLI/                    src/cli/*           3'
    'mpi\.h                  src/comm/*          3'
    'oneapi/dnnl|dnnl\.h     src/kernels/*.cpp   3'
    'hwloc                   src/*/*.cpp         2'
    'pcre2\.h                src/train/*.cpp     1'
    'utf8proc\.h             src/train/*.cpp     1'
)
max_lines=400

findings=0
finding() {
    echo "$1"
    findings=$((findings + 1))
}

# Every line `#include "a/b.h"` as: file, line number, included path.
quoted_includes() {
    grep -rnoE --include='*.h' --include='*.cpp' '^ *# *include *"[^"]+"' src |
        sed -E 's/^([^:]+):([0-9]+):.*"([^"]+)"/\1 \2 \3/'
}

check_direction() {
    local file line target from to
    while read -r file line target; do
        from=${file#src/} from=${from%%/*} to=${target%%/*}
        if [[ -z ${level[$from]:-} ]]; then
            finding "$file: '$from' is not a room"
        elif [[ $target != */* || -z ${level[$to]:-} ]]; then
            finding "$file:$line: \"$target\" is not of the form \"room/file.h\""
        elif [[ ! -f src/$target ]]; then
            finding "$file:$line: \"$target\" does not exist"
        elif [[ $from != "$to" ]] && ((level[$to] >= level[$from])); then
            finding "$file:$line: $from may not include \"$target\": $to is not below it"
        fi
    done < <(quoted_includes)
}

check_heavy_headers() {
    local rule pattern allowed limit file users
    for rule in "${heavy[@]}"; do
        read -r pattern allowed limit <<<"$rule"
        users=0
        while read -r file; do
            users=$((users + 1))
            # shellcheck disable=SC2053  # `allowed` is a pattern
            [[ $file == $allowed ]] || finding "$file: includes <$pattern>, which belongs in $allowed"
        done < <(grep -rlE "^ *# *include *[<\"]($pattern)" src || true)
        ((users <= limit)) || finding "<$pattern> is included by $users files; at most $limit may"
    done
}

check_files() {
    local file lines
    while read -r file; do
        lines=$(wc -l <"$file")
        ((lines <= max_lines)) || finding "$file: $lines lines; at most $max_lines"
        [[ $file != *.h ]] || grep -q '^#pragma once$' "$file" || finding "$file: no #pragma once"
    done < <(find src -name '*.h' -o -name '*.cpp')
}

# The project stands alone: nothing in it may name a place outside it.
check_foreign_paths() {
    local hit
    while read -r hit; do
        finding "$hit: names a path outside the project"
    done < <(grep -rnoIE --exclude-dir=.git --exclude=.git --exclude-dir=build '/wor[k]/|\.\./share[d]' . || true)
}

check_tree() {
    cd "$1"
    check_direction
    check_heavy_headers
    check_files
    check_foreign_paths
    if ((findings)); then
        echo "house rules: $findings findings"
        return 1
    fi
    echo "house rules: $(find src -name '*.h' -o -name '*.cpp' | wc -l) files, no findings"
}

# expect WORDS FILE TEXT: a clean tree with that one file more must give exactly one finding, with these words in it.
expect() {
    local words=$1 file=$2 text=$3 tree output
    tree=$(mktemp -d)
    mkdir -p "$tree/src/"{base,train,plan,fault}
    printf '#pragma once\n' | tee "$tree/src/base/low.h" "$tree/src/train/high.h" "$tree/src/plan/plan.h" >/dev/null
    printf '#include "base/low.h"\n#include "train/high.h"\n' >"$tree/src/fault/clean.cpp"
    if [[ -n $file ]]; then
        mkdir -p "$(dirname "$tree/$file")"
        printf '%b' "$text" >"$tree/$file"
    fi
    output=$(check_tree "$tree" 2>&1) || true
    rm -r "$tree"
    if [[ $output != *"$words"* ]]; then
        echo "self-test: expected '$words' for $file, got: $output"
        exit 1
    fi
}

self_test() {
    expect 'no findings' '' ''
    expect 'train is not below it' src/base/up.cpp '#include "train/high.h"\n'
    expect 'plan is not below it' src/fault/sideways.cpp '#include "plan/plan.h"\n'
    expect 'is not of the form' src/train/relative.cpp '#include "high.h"\n'
    expect 'does not exist' src/train/missing.cpp '#include "base/gone.h"\n'
    expect 'is not a room' src/attic/a.cpp '#include "base/low.h"\n'
    expect 'belongs in' src/train/heavy.cpp '#include <toml++/toml.h>\n'
    expect 'belongs in' src/config/heavy.h '#pragma once\n#include <toml++/toml.h>\n'
    expect 'no #pragma once' src/base/bare.h '// nothing\n'
    expect '401 lines' src/base/long.cpp "$(printf '\\n%.0s' {1..401})"
    expect 'outside the project' docs/a.md 'see ../share''d/x\n'
    echo "house rules: self-test passed"
}

case "${1:-}" in
    --self-test) self_test ;;
    *) check_tree "${1:-$(dirname "$0")/..}" ;;
esac
