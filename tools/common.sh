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

# A virtual environment with torch, and what the package's tests need; tools/setup --python makes it.
python_venv=build/python
# shellcheck disable=SC2034 # tools/setup uses it
python_requirements=(altair mypy numpy pytest ruff vl-convert-python
  accelerate diffusers lightning peft pytorch-lightning timm transformers)

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
  # The package's module is for the interpreter that runs its tests.
  local python=()
  if [[ "$preset" == dev && -x "$python_venv/bin/python" ]]; then
    python=(-DREPRISE_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$python_venv/bin/python")
  fi
  cmake --preset "$preset" "-DREPRISE_LIBTORCH=$libtorch" "${python[@]}" "$@" >"build/configure-$preset.log" 2>&1 ||
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

# A TCP port that nobody listens at.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Prints where Open MPI's mpirun is, or fails. Others start ranks that the library does not know of.
find_open_mpi() {
  local mpirun
  for mpirun in mpirun.openmpi mpirun; do
    if "$mpirun" --version 2>/dev/null | grep -q 'Open MPI'; then
      command -v "$mpirun"
      return
    fi
  done
  return 1
}

# run_ranks COUNT PROGRAM [arguments]: under Open MPI, on this machine, also where it has fewer cores.
run_ranks() {
  local count="$1" mpirun threads options=(--oversubscribe --bind-to none)
  shift
  mpirun="$(find_open_mpi)" || die "Open MPI's mpirun is missing: run tools/setup"
  if ((EUID == 0)); then options+=(--allow-run-as-root); fi # as in a container
  threads=$(($(nproc) / count))
  MASTER_PORT="${MASTER_PORT:-$(free_port)}" OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" \
    OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}" \
    "$mpirun" "${options[@]}" -n "$count" "$@"
}
