#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that sysom is built, tested and measured with, where they are
# missing. usage: tools/deps.sh GROUP...   groups: build test bench fuzz   --list prints them only
set -euo pipefail

build="gcc make pkg-config python3 curl jq procps libnng-dev libzstd-dev libprotobuf-c-dev protobuf-c-compiler
protobuf-compiler libsqlite3-dev libmicrohttpd-dev libcurl4-gnutls-dev libjansson-dev libyaml-dev zlib1g-dev libdebuginfod-dev libiberty-dev"
test="libcmocka-dev binutils gdb jq curl python3-numpy python3-torch iproute2 procps git"
fuzz="clang libclang-rt-14-dev"
bench="lttng-tools liblttng-ust-dev bpftrace"

list=""
only_list=no
for group in "$@"; do
	case $group in
	build) list+=" $build" ;;
	test) list+=" $test" ;;
	bench) list+=" $bench" ;;
	fuzz) list+=" $fuzz" ;;
	--list) only_list=yes ;;
	*) echo "deps: no such group: $group" >&2; exit 2 ;;
	esac
done
if [ $only_list = yes ]; then
	printf '%s\n' $list
	exit 0
fi

if [ "${DEPS:-}" = no ]; then
	exit 0
fi
if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; install these by hand, then use DEPS=no:" $list >&2
	exit 1
fi
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
missing=""
for package in $list; do
	grep -qxF "$package" <<<"$installed" || missing+=" $package"
done
[ -z "$missing" ] && exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
	as_root="sudo"
	command -v sudo >/dev/null || { echo "deps: as root, install:$missing" >&2; exit 1; }
fi
echo "deps: installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for try in 1 2 3; do
	if $as_root apt-get -q update >>"$log" 2>&1 &&
	   $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends \
		install $missing >>"$log" 2>&1; then
		exit 0
	fi
	echo "deps: apt failed (try $try of 3)" >&2
	sleep 2
done
tail -n 20 "$log" >&2
exit 1
