#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh - the Debian packages on a bare Debian that systemd boots, by the commands of README.md and
# deploy/README.md: install, a fault found by mutual TLS under the hardened units, a job of Slurm with its
# verdict, upgrade, purge.
. "$(dirname "$0")/lib.sh"
. tests/e2e/pki.sh
. tests/e2e/page.sh
for need in command:dpkg-buildpackage command:dh command:mmdebstrap command:systemd-nspawn command:openssl root mounts mirror; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "the packages on a bare Debian" "needs $need"; finish; exit; }
done
ROOT=$WORK/root
inside() { chroot "$ROOT" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
built() { B="$B" deploy/package.sh deb "$WORK/debs" >"$WORK/build.log" 2>&1; }
no_lintian_errors() { lintian --allow-root --fail-on error "$WORK"/debs/*.changes >"$WORK/lintian.log" 2>&1; }
bare() {
	mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,jq bookworm "$ROOT" \
		>"$WORK/mmdebstrap.log" 2>&1 && mkdir -p "$ROOT/site/build" && cp -r "$WORK/debs" "$ROOT/site/build/packages" &&
		ln -s site/build/packages "$ROOT/debs" && cp /etc/resolv.conf "$ROOT/etc/" &&
		echo 'APT::Get::Assume-Yes "true"; APT::Install-Recommends "false";' >"$ROOT/etc/apt/apt.conf.d/trial" &&
		printf '#!/bin/sh\nexec "$@"\n' >"$ROOT/usr/bin/sudo" && chmod +x "$ROOT/usr/bin/sudo" && inside apt-get -q update >"$WORK/apt.log"
}
# The commands of a page, in three parts: those of this machine, those without systemd, those of the booted machine.
commands() { page_lines "$1" "$2" "$3" '^make' 'apt install' 'systemctl|LD_PRELOAD|sbatch' && cp "$WORK/lines.3" "$ROOT/$4"; }
installed() { is "$(cat "$WORK/lines.1")" "make package" && inside bash -ec "cd /site; $(cat "$WORK/lines.2")" >"$WORK/apt.log" 2>&1; }
# A cluster of this machine alone. Its packages ask for no more than a name.
slurm() {
	inside apt-get -q install slurmctld slurmd slurm-client munge iproute2 >"$WORK/apt-slurm.log" 2>&1 && cat >"$ROOT/etc/slurm/slurm.conf" <<-'CONF'
		ClusterName=trial
		SlurmctldHost=trial
		SlurmUser=root
		AuthType=auth/munge
		StateSaveLocation=/var/lib/slurm/state
		SlurmdSpoolDir=/var/lib/slurm/spool
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SlurmdParameters=config_overrides
		ReturnToService=2
		MailProg=/bin/true
		NodeName=trial CPUs=8 State=UNKNOWN
		PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	CONF
	echo trial >"$ROOT/etc/hostname"
	printf '127.0.0.1 localhost\n192.0.2.1 trial\n' >"$ROOT/etc/hosts"
	mkdir -p "$ROOT"/var/lib/slurm/{state,spool} && inside systemctl --quiet disable slurmctld slurmd munge
}
install_all() {
	inside sh -c 'apt-get -q "$@" $(ls /debs/*.deb | grep -v dbgsym)' sh "$@" >"$WORK/apt.log" 2>&1
}
# For the machine's node and aggregator, as deploy/README.md has it.
certificates() {
	pki_authority "$WORK/pki" && pki_issue "$WORK/pki" trial-node clientAuth && pki_issue "$WORK/pki" aggregator serverAuth &&
		mkdir "$ROOT/etc/sysom/tls" && cp "$WORK"/pki/{ca.crt,trial-node.crt,trial-node.key,aggregator.crt,aggregator.key} "$ROOT/etc/sysom/tls"
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
	timeout 300 systemd-nspawn --quiet --directory="$ROOT" --register=no --keep-unit --private-network \
		--capability=all --system-call-filter="bpf perf_event_open process_vm_readv kcmp" --boot >"$WORK/boot.log" 2>&1
	tail -n 30 "$ROOT/trial.err" >"$WORK/trial.log"
}
said() { grep -qxF "$1" "$ROOT/trial.log" || { tail -n 20 "$ROOT/trial.log" | cut -c1-200 | sed 's/^/# /'; return 1; }; }
untouched() { # what a purge leaves
	local left
	left=$(find "$ROOT"/etc "$ROOT"/usr "$ROOT"/var/lib "$ROOT"/run -iname '*sysom*' ! -path '*/dpkg/*' ! -path '*/apt/*' ! -path '*/deb-systemd-helper*')
	is "$left" ""
}

ok "the packages are built" built
if command -v lintian >/dev/null; then
	ok "lintian finds no error" no_lintian_errors
else
	skip "lintian finds no error" "needs command:lintian"
fi
ok "a bare Debian" bare
ok "README.md has commands for packages" commands README.md "Use it" 2 commands-of-node
ok "they install" installed
ok "deploy/README.md has commands for Slurm" commands deploy/README.md "In Slurm" 1 commands-of-slurm
ok "a machine with Slurm" slurm
ok "they install" installed
ok "all other packages install" install_all install
ok "nothing is started before it has settings" [ ! -e "$ROOT/etc/systemd/system/multi-user.target.wants/sysomd.service" ]
ok "the preload has its bare name" eval 'inside LD_PRELOAD=libsysom_preload.so true 2>"$WORK/preload.err" && [ ! -s "$WORK/preload.err" ]'

cat >"$WORK/trial" <<'EOS'
sed -i '/^node:/,/name:/s#name: ""#name: trial-node#; /^tls:/,/name:/s#name: ""#name: aggregator#' /etc/sysom/sysomd.yaml
for side in sysomd:trial-node sysom-aggregator:aggregator; do
	sed -i "/^tls:/,/^[^ ]*$/{s#^  cert: \"\"#  cert: /etc/sysom/tls/${side#*:}.crt#; s#^  key: \"\"#  key: /etc/sysom/tls/${side#*:}.key#
		s#^  ca: \"\"#  ca: /etc/sysom/tls/ca.crt#}" "/etc/sysom/${side%:*}.yaml"
done
groupadd --system sysom-tls
chgrp sysom-tls /etc/sysom/tls/aggregator.key
chmod 0640 /etc/sysom/tls/*.key
mkdir /etc/systemd/system/sysom-aggregator.service.d
printf '[Service]\nSupplementaryGroups=sysom-tls\n' >/etc/systemd/system/sysom-aggregator.service.d/tls.conf
systemctl daemon-reload
cd /site
printf '#!/bin/sh\nexec simjob --ranks 4 --seconds 30 --seed 7 --fault late:rank=2:start=12s:steps=2000:size=2\n' >/usr/local/bin/torchrun
chmod +x /usr/local/bin/torchrun
command_of() { grep -h -- "$1" /commands-of-node /commands-of-slurm | head -n 1; }
eval "$(command_of 'enable --now sysom-aggregator')"
eval "$(command_of 'enable --now sysomd')"
echo "units $(systemctl is-active sysom-aggregator sysomd sysomd.socket sysomd-control.socket | uniq)"
echo "root $(systemctl show -P User sysomd) $(ps -o user= -p "$(systemctl show -P MainPID sysomd)" | grep -c root)"
setpriv --reuid=1234 --regid=1234 --clear-groups env SYSOM_JOB=packed bash -c "$(command_of LD_PRELOAD)" &
for try in $(seq 45); do
	sleep 1
	id=$(sysom incidents --json | jq -r '[.incidents[]|select(.job|startswith("packed"))][0].id // empty')
	[ "$id" ] && [ "$(sysom show "$id" --json | jq -r .diagnosis.cause)" = cpu-sleep ] && break
done
sysom show "$id" --json | jq -r '"blamed \([.ranks[]|tostring]|join(",")) \(.diagnosis.layer) \(.diagnosis.cause) on \(.nodes[0])"'
wait
echo "$(journalctl --no-pager -u sysomd | grep -o 'connected by TLS' | sort -u)"
ip addr add 192.0.2.1/32 dev lo # getaddrinfo() knows no name where there is no address but loopback's
systemctl start munge slurmctld slurmd
for try in $(seq 30); do sinfo -h -o %T | grep -qx idle && break; sleep 1; done
install -d -o games /home/games
cd /home/games
printf '#!/bin/sh\n#SBATCH -n 4 -J trained -o train.out --wait\nexec srun torchrun\n' >train.sh
sed -i 's/exec simjob/exec simjob --join \/home\/games\/join/' /usr/local/bin/torchrun
setpriv --reuid=games --regid=games --clear-groups bash -c "$(command_of sbatch)"
grep '^sysom:' train.out
echo "sbatch $(grep -c '^sysom: job trained#.*4 ranks on 1 node.*1 incident' train.out) $(grep -c '^sysom: rank 2 is slow' train.out) $(grep -c 'cause cpu-sleep' train.out)"
systemctl stop slurmd slurmctld munge
cd /
echo "alive $(systemctl show -P NRestarts sysomd sysom-aggregator | sort -u | tr -d '\n')"
echo "watchdogs $(systemctl show -P WatchdogUSec sysomd sysom-aggregator | sort -u | xargs)"
for unit in sysomd sysom-aggregator; do
	mkdir -p "/run/systemd/system/$unit.service.d"
	printf '[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\n' >"/run/systemd/system/$unit.service.d/short.conf"
done
systemctl daemon-reload
systemctl restart sysomd sysom-aggregator
for unit in sysomd sysom-aggregator; do # a loop that hangs, as its watchdog sees it
	kill -STOP "$(systemctl show -P MainPID $unit)"
	for try in $(seq 30); do sleep 1; [ "$(systemctl show -P NRestarts $unit)" -ge 1 ] && break; done
	sleep 1
	echo "hung $unit: $(systemctl is-active $unit) again after $(journalctl -b --no-pager -u $unit | grep -c 'Watchdog timeout')"
done
systemctl stop sysomd sysomd.socket sysomd-control.socket sysom-aggregator
ls -d /var/lib/sysom /var/lib/sysom-aggregator
journalctl --no-pager -u sysomd -u sysom-aggregator | grep 'level=\(error\|warn\)' >&2
EOS
ok "certificates are made" certificates
boot "$WORK/trial"
ok "both daemons run under their units" said "units active"
ok "sysomd connects with its certificate" said "connected by TLS"
ok "sysomd is not root" said "root sysomd 0"
ok "the fault of a job with LD_PRELOAD=libsysom_preload.so is found" said "blamed 2 cpu cpu-sleep on trial-node"
ok "sbatch --sysom: the job's output has rank and cause" said "sbatch 1 1 1"
ok "neither daemon was restarted" said "alive 0"
ok "the units have a watchdog" said "watchdogs 1min"
ok "a sysomd that hangs is started again by its watchdog" said "hung sysomd: active again after 1"
ok "and so is an aggregator" said "hung sysom-aggregator: active again after 1"
ok "an upgrade keeps the settings" eval 'install_all --reinstall install && grep -q "name: trial-node" "$ROOT/etc/sysom/sysomd.yaml"'
rm -r "$ROOT/etc/sysom/tls" "$ROOT/etc/systemd/system/sysom-aggregator.service.d" # what the administrator made
ok "a purge" eval 'inside apt-get -qy purge sysom sysomd sysom-aggregator libsysom-preload libsysom-preload-dev sysom-sim sysom-slurm >"$WORK/purge.log" 2>&1'
ok "leaves nothing" untouched
finish
