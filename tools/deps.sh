#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that sysom is built, tested and measured with, where they are
# missing. usage: tools/deps.sh GROUP...   groups: build test package bench fuzz   --list prints them only
set -euo pipefail

build="gcc make pkg-config python3 curl jq procps libnng-dev libzstd-dev libprotobuf-c-dev protobuf-c-compiler
protobuf-compiler libsqlite3-dev libmicrohttpd-dev libcurl4-gnutls-dev libjansson-dev libyajl-dev libyaml-dev zlib1g-dev
libdebuginfod-dev libgnutls28-dev nettle-dev libiberty-dev liblzma-dev libbpf-dev libsystemd-dev libelf-dev libdw-dev libncurses-dev clang bpftool libslurm-dev"
test="bash-completion zsh libcmocka-dev libunwind-dev chromium binutils g++ gdb debuginfod elfutils faketime openssl xz-utils jq curl python3-numpy python3-torch python3-greenlet iproute2 procps git zstd strace tmux clang-format python3-prometheus-client prometheus"
package="dpkg-dev debhelper chrpath lintian mmdebstrap systemd-container podman runc musl-tools python3-yaml rpm piuparts
slurmctld slurmd slurm-client munge catatonit golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev"
# Another Node.js than Debian's brings its own npm, and both can't be installed.
command -v npm >/dev/null || package+=" nodejs npm"
fuzz="clang libclang-rt-14-dev"
bench="lttng-tools liblttng-ust-dev bpftrace linux-perf redis-server nginx-light golang-go gron"

list=""
only_list=no
for group in "$@"; do
	case $group in
	build) list+=" $build" ;;
	test) list+=" $test" ;;
	package) list+=" $package" ;;
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

if ! command -v dpkg-query >/dev/null; then
	[ "${DEPS:-}" = no ] && exit 0
	echo "deps: not a Debian system; install these by hand, then use DEPS=no:" $list >&2
	exit 1
fi
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
missing=""
for package in $list; do
	grep -qxF "$package" <<<"$installed" || missing+=" $package"
done
[ -z "$missing" ] && exit 0
if [ "${DEPS:-}" = no ]; then
	echo "deps: not installed, as DEPS=no says (what needs them may fail):$missing" >&2
	exit 0
fi

by_hand() {
	echo "deps: $1; install as root: apt-get install --no-install-recommends$missing" >&2
	echo "deps: or go on without them: DEPS=no" >&2
	exit 1
}
as_root=""
if [ "$(id -u)" != 0 ]; then
	as_root="sudo"
	command -v sudo >/dev/null || by_hand "not root, and there is no sudo"
	# a password is asked for here, not in the midst of apt's output
	sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; } || by_hand "sudo does not let us"
fi
echo "deps: installing (its output comes only if it fails):$missing" >&2
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
