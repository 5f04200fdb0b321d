#!/usr/bin/env bash
# Runs the tests of a ctest preset on all cores and ends with the plain line "N passed, N failed":
#   scripts/run_tests.sh PRESET [ctest options]
# Counted are GoogleTest's single tests. A program that dies, runs out of time or reports a leak after its last test
# counts as one failed test, and so does a test that skips itself. Exit: 0 when at least one passed and none failed.
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
folder=build/$preset
[[ $preset == fast ]] && folder=build/release
results=$folder/test-results
rm -rf "$results" "$folder/ctest.xml"

ctest --preset "$preset" --parallel "$(nproc)" --output-junit "$PWD/$folder/ctest.xml" "$@"

number() { sed -nE "1,/<testsuites/s/.*<testsuites.*[^a-z]$1=\"([0-9]+)\".*/\1/p" "$2"; }

passed=0 failed=0
while read -r name status; do
    ran=1 bad=0  # what counts for a program that is not GoogleTest's, or that wrote no results
    if [[ -f $results/$name.xml ]]; then
        ran=$(number tests "$results/$name.xml")
        skipped=$(grep -c '<skipped' "$results/$name.xml")
        bad=$(($(number failures "$results/$name.xml") + skipped))
        ((skipped == 0)) || echo "$name: $skipped tests skipped themselves, which counts as failed"
    fi
    if [[ $status != run ]] && ((bad == 0)); then
        echo "$name: failed, and not in a single test (a crash, a timeout, a sanitizer's report or another rank)"
        bad=1
        [[ ! -f $results/$name.xml ]] || ran=$((ran + 1))
    fi
    passed=$((passed + ran - bad)) failed=$((failed + bad))
done < <(sed -nE 's/.*<testcase name="([^"]*)".* status="([a-z]+)".*/\1 \2/p' "$folder/ctest.xml")

echo "$passed passed, $failed failed"
((passed > 0 && failed == 0))
