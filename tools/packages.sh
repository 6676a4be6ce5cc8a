# SPDX-License-Identifier: LGPL-2.1-or-later
# What the scripts beside this file need, by the names of Debian 12's packages, and how they install and configure. Sourced,
# not run.

packages_build="build-essential pkg-config meson ninja-build libglib2.0-dev libgirepository1.0-dev libprotobuf-c-dev
  protobuf-c-compiler libonnx-dev libjson-glib-dev libgdk-pixbuf-2.0-dev zlib1g-dev libdnnl-dev libopenblas-pthread-dev"
packages_quickstart="dataset-fashion-mnist"
packages_package="git debhelper dpkg-dev dh-python gobject-introspection valac gir1.2-json-1.0 gi-docgen python3"
packages_check="python3-gi python3-numpy python3-matplotlib python3-venv gjs valac gir1.2-json-1.0 libonnx-testdata dataset-fashion-mnist clang
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
  echo "Installing, with their dependencies: ${missing[*]}"
  local log status=0
  log=$(mktemp -t ortrain-apt-XXXXXX.log) # a name of one's own: others' files are not overwritten
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" 2>&1 |
    tee "$log" | show_packages && status=${PIPESTATUS[0]} || status=${PIPESTATUS[0]} # also where a failure ends the script
  [ "$status" -eq 0 ] || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

# On a terminal, one line that says how far apt is.
show_packages () {
  if [ -t 1 ]; then
    awk '/newly installed/ { n = $3 + $1 } /^Unpacking / { u++ } /^Setting up / { s++ }
         /^(Get|Unpacking|Setting up)/ { printf "\r  unpacked %d, set up %d of %d ", u, s, n; fflush () } END { if (n) print "" }'
  else
    cat >/dev/null
  fi
}

# set_up_build FOLDER OPTION…: configured once; a folder whose configuration was interrupted is made anew.
set_up_build () {
  local folder=$1
  shift
  [ -e "$folder/build.ninja" ] && return 0
  rm -rf "$folder"
  meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; return 1; }
  rm -f "$folder.log"
}

# On a terminal, one line that says how far the build is.
build () {
  if [ -t 1 ]; then NINJA_STATUS='[%f of %t, %e s] ' ninja -C "$@"; else ninja -C "$@" --quiet; fi
}

# bare_system FOLDER LOG: Debian's smallest system, of this release and from where this system has its packages. As root.
bare_system () {
  install_missing debootstrap || return 1
  local from
  from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
  echo "A bare system in $1"
  debootstrap --variant=minbase --no-check-gpg "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$1" "$from" >"$2" 2>&1 ||
    { tail -n 20 "$2" >&2; return 1; }
  rm -f "$1/etc/apt/sources.list" # debootstrap's; this system's say the same, or more
  cp -a /etc/apt/. "$1/etc/apt/"
  cp /etc/resolv.conf /etc/hosts "$1/etc/"
  # for pip: from where this system has its packages, and whom it trusts, before and behind the package ca-certificates
  local file
  for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/*.crt; do
    [ ! -e "$file" ] || install -D -m 644 "$file" "$1$file"
  done
}
