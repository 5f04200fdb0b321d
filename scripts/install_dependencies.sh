#!/usr/bin/env bash
# Installs the Debian 12 packages that are missing; says nothing and needs no rights where none is.
#   scripts/install_dependencies.sh          what building, testing and the demo need
#   scripts/install_dependencies.sh check    what the format, tidy and sanitizer checks need
set -euo pipefail

build_packages=(
    g++ cmake ninja-build pkg-config          # the tools
    libopenmpi-dev openmpi-bin                # communication
    libdnnl-dev                               # matrix products
    libfmt-dev libxxhash-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev
    libpcre2-dev libutf8proc-dev              # tokenizers: patterns and Unicode normal forms
    libgtest-dev libgmock-dev libbenchmark-dev  # tests and benchmarks
    bible-kjv                                 # the text that the demo learns
)
check_packages=(clang-14 clang-tidy-14 clang-format-14 libomp-14-dev libclang-rt-14-dev)

case "${1:-build}" in
    build) packages=("${build_packages[@]}") ;;
    check) packages=("${check_packages[@]}") ;;
    *) echo "usage: $0 [build|check]" >&2; exit 2 ;;
esac

fail() {
    printf '%s\n' "$1" "needed packages: ${packages[*]}" >&2
    exit 2
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    fail "This is no Debian system (dpkg-query or apt-get is missing): install the counterparts of these Debian 12 packages,
then build with cmake as CONTRIBUTING.md shows."

installed=" $(dpkg-query --show --showformat='${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
    [[ $installed == *" installed:$package "* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null ||
        fail "Packages are missing (${missing[*]}), and installing them takes root or sudo: run as root
'apt-get install ${missing[*]}', then again."
    as_root=(sudo)
fi

echo "Installing Debian packages: ${missing[*]}" >&2
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A fresh system has no package lists. Where updating them fails, the lists that are there may still do.
apt update >"$log" 2>&1 || cat "$log" >&2
if ! apt install --yes --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    fail "Installing ${missing[*]} failed (above: what apt-get said; the names are those of Debian 12)."
fi
