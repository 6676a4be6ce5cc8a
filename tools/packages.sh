# SPDX-License-Identifier: LGPL-2.1-or-later
# What the scripts beside this file need, by the names of Debian 12's packages. Sourced, not run.

packages_build="build-essential pkg-config meson ninja-build libglib2.0-dev libgirepository1.0-dev libprotobuf-c-dev
  protobuf-c-compiler libonnx-dev libjson-glib-dev zlib1g-dev libdnnl-dev libopenblas-pthread-dev"
packages_quickstart="dataset-fashion-mnist"
packages_check="python3-gi python3-numpy python3-venv gjs valac gir1.2-json-1.0 libonnx-testdata dataset-fashion-mnist clang
  libclang-rt-14-dev clang-format gi-docgen git"

# install_missing NAME…: those that are not there are installed, by root or through sudo.
install_missing () {
  local missing=() name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null | cut -c1-2)" = "ii" ] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local run=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "These packages are missing, and there is neither root nor sudo: ${missing[*]}" >&2; return 1; }
    run=(sudo)
  fi
  echo "Installing ${#missing[@]} packages: ${missing[*]}"
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"${TMPDIR:-/tmp}/ortrain-apt.log" 2>&1 ||
    { tail -n 20 "${TMPDIR:-/tmp}/ortrain-apt.log" >&2; return 1; }
}
