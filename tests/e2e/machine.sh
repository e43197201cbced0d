# SPDX-License-Identifier: Apache-2.0
# machine.sh - a bare Debian with this tree's packages, which systemd boots, for tests of packages and units. Source it
# after lib.sh.
MACHINE_NEEDS=(command:dpkg-buildpackage command:dh command:mmdebstrap command:systemd-nspawn root mounts mirror)
ROOT=$WORK/root
inside() { chroot "$ROOT" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
debian() { mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,jq bookworm "$1/root.tar"; }
bare() {
	once debian debian && mkdir "$ROOT" && tar -C "$ROOT" --xattrs -xf "$SHARED/debian/root.tar" &&
		mkdir -p "$ROOT/site/build" && cp -r "$PACKAGES" "$ROOT/site/build/packages" &&
		ln -s site/build/packages "$ROOT/debs" && cp /etc/resolv.conf "$ROOT/etc/" &&
		echo 'APT::Get::Assume-Yes "true"; APT::Install-Recommends "false";' >"$ROOT/etc/apt/apt.conf.d/trial" &&
		printf '#!/bin/sh\nexec "$@"\n' >"$ROOT/usr/bin/sudo" && chmod +x "$ROOT/usr/bin/sudo" && inside apt-get -q update >"$WORK/apt.log" &&
		cp -r --parents README.md deploy/README.md tests/e2e/page.sh tools "$ROOT/site"
}
installed() { # the command of a page
	inside bash -ec "cd /site; $1" >"$WORK/apt.log" 2>&1
}
# A machine with both daemons and what the demo needs, for all tests of a run.
units_machine() { once units units; }
units() {
	ROOT=$1/root
	bare && installed 'sudo apt install /debs/{sysom,sysomd,sysom-aggregator,libsysom-preload,sysom-sim}_*.deb' &&
		inside apt-get -q install curl python3 >"$WORK/apt-demo.log" 2>&1
}
# Boots the machine, which runs $1 as a unit of its own and switches itself off.
boot() {
	cp "$1" "$ROOT/trial"
	cat >"$ROOT/etc/systemd/system/trial.service" <<-'UNIT'
		[Unit]
		After=multi-user.target
		[Service]
		Type=oneshot
		StandardOutput=file:/trial.log
		StandardError=file:/trial.err
		ExecStart=/bin/bash -x /trial
		ExecStopPost=/bin/systemctl poweroff --no-block
		[Install]
		WantedBy=graphical.target multi-user.target
	UNIT
	inside systemctl --quiet enable trial
	timeout 600 systemd-nspawn --quiet --directory="$ROOT" --register=no --keep-unit --private-network \
		--capability=all --system-call-filter="bpf perf_event_open process_vm_readv kcmp" --boot >"$WORK/boot.log" 2>&1
	tail -n 30 "$ROOT/trial.err" >"$WORK/trial.log"
}
said() { grep -qxF "$1" "$ROOT/trial.log" || { tail -n 20 "$ROOT/trial.log" | cut -c1-200 | sed 's/^/# /'; return 1; }; }
