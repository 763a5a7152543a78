#!/usr/bin/env bash
# Installs what the course needs of a Debian or Ubuntu and this machine lacks; CI and the container both call it.
#   grading   walls around answers, and make
#   tests     besides: a browser, a database, a font
# "--list" in front prints the packages of a kind and installs nothing.
set -euo pipefail

list=
if [ "${1:-}" = --list ]; then
  list=1
  shift
fi
kind=${1:-}
case $kind in
  grading | tests) ;;
  *)
    echo "usage: $0 [--list] grading|tests" >&2
    exit 2
    ;;
esac

need() { command -v "$1" >/dev/null 2>&1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

packages=()
want() { # a package, unless the test behind it says that it is there
  local package=$1
  shift
  if [ -n "$list" ] || ! "$@" >/dev/null 2>&1; then packages+=("$package"); fi
}
font() { fc-list | grep -qi dejavu; }
some() { ls $1; } # a pattern

want make need make
want bubblewrap need bwrap
want libseccomp2 some '/usr/lib/*/libseccomp.so.2'
if [ "$kind" = tests ]; then
  want chromium need chromium
  want postgresql some '/usr/lib/postgresql/*/bin/initdb'
  want fonts-dejavu-core font
fi

if [ -n "$list" ]; then
  printf '%s\n' "${packages[@]}"
elif [ ${#packages[@]} -gt 0 ]; then
  as_root apt-get update -qq
  as_root apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
