# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
# shellcheck shell=bash
#
# What the commands in tools/ share; sourced by them, with the repository's root as the current
# folder afterwards.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

say() { printf '[%s] %s\n' "${0##*/}" "$*"; }

die() {
  printf '[%s] error: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

bad_usage() {
  printf '[%s] %s (see tools/%s --help)\n' "${0##*/}" "$*" "${0##*/}" >&2
  exit 2
}

# Prints the comment block that a command's file opens with, less its licence.
show_help() { sed -n '/^# Usage:/,/^$/{/^$/q; s/^# \{0,1\}//; p}' "$1"; }

# The version of torch that is downloaded where there is none, for pip.
torch_requirement() { echo torch==2.11.0; }

# Prints the folder of the LibTorch that the build will use, or fails and prints why there is none.
locate_libtorch() {
  local answer
  answer="$(cmake -P tools/locate_libtorch.cmake)"
  printf '%s\n' "$answer"
  [[ -d "$answer" ]]
}

# As many compilers at a time as there are cores, and memory for: LibTorch's headers take 2 GB each.
build_jobs() {
  local cores memory_kib
  cores="$(nproc)"
  memory_kib="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)"
  local fit=$((${memory_kib:-0} / 2097152))
  if ((fit < 1)); then fit=1; fi
  echo $((cores < fit ? cores : fit))
}

# configure PRESET [cmake arguments]
configure() {
  local preset="$1" libtorch
  shift
  libtorch="$(locate_libtorch)" || die "$libtorch"
  say "configuring build/$preset"
  cmake --preset "$preset" "-DREPRISE_LIBTORCH=$libtorch" "$@" >"build/configure-$preset.log" 2>&1 ||
    {
      cat "build/configure-$preset.log" >&2
      die "configuring failed"
    }
  grep '^-- Reprise:' "build/configure-$preset.log" || true
}

# build PRESET [targets]
build() {
  local preset="$1"
  shift
  say "building build/$preset${*:+: $*}"
  cmake --build "build/$preset" --parallel "$(build_jobs)" ${1:+--target "$@"}
}
