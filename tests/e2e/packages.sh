#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh - the Debian packages on a bare Debian that systemd boots, by the commands of README.md and
# deploy/README.md: install, a fault found by mutual TLS under the hardened units and no more rights
# than these give, a job of Slurm with its verdict, HTTP with tokens, upgrade, purge.
# long: builds the packages, makes a Debian and boots it
. "$(dirname "$0")/lib.sh"
. tests/e2e/page.sh
. tests/e2e/machine.sh
for need in "${MACHINE_NEEDS[@]}" command:openssl; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "the packages on a bare Debian" "needs $need"; finish; exit; }
done
no_lintian_errors() { lintian --allow-root --fail-on error "$PACKAGES"/*.changes >"$WORK/lintian.log" 2>&1; }
# A cluster of this machine alone. Its packages ask for no more than a name.
slurm() {
	inside apt-get -q install slurmctld slurmd slurm-client munge iproute2 curl openssl >"$WORK/apt-slurm.log" 2>&1 && cat >"$ROOT/etc/slurm/slurm.conf" <<-'CONF'
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
# What /proc/PID/status has of the daemon of a unit, by the settings of that unit.
rights() { # unit
	python3 - "$ROOT/lib/systemd/system/$1.service" "rights $1" <<-'PY'
		import re, sys
		unit = dict(re.findall(r"^(\w+)=(.*)$", open(sys.argv[1]).read(), re.M))
		number = dict(re.findall(r"^#define (CAP_\w+)\s+(\d+)$", open("/usr/include/linux/capability.h").read(), re.M))
		def mask(setting):
		    return f"{sum(1 << int(number[c]) for c in unit.get(setting, '').split()):016x}"
		has, most = mask("AmbientCapabilities"), mask("CapabilityBoundingSet")
		print(sys.argv[2], f"CapInh:{has} CapPrm:{has} CapEff:{has} CapBnd:{most} CapAmb:{has}",
		      f"NoNewPrivs:{int(unit['NoNewPrivileges'] == 'yes')} Seccomp:{2 if 'SystemCallFilter' in unit else 0}")
	PY
}
untouched() { # what a purge leaves
	local left
	left=$(find "$ROOT"/etc "$ROOT"/usr "$ROOT"/var/lib "$ROOT"/run -iname '*sysom*' ! -path '*/dpkg/*' ! -path '*/apt/*' ! -path '*/deb-systemd-helper*')
	is "$left" ""
}

ok "the packages are built" packages
if command -v lintian >/dev/null; then
	ok "lintian finds no error" no_lintian_errors
else
	skip "lintian finds no error" "needs command:lintian"
fi
ok "a bare Debian" bare
ok "README.md has commands for packages" page_lines README.md "Use it" 2 '^make package$' 'apt install'
ok "they install" installed "$(cat "$WORK/lines.2")"
ok "a machine with Slurm" slurm
ok "README.md has commands for Slurm" page_lines README.md "In Slurm" 1 'apt install' systemctl
ok "they install" installed "$(cat "$WORK/lines.1")"
ok "all other packages install" install_all install
ok "nothing is started before it has settings" [ ! -e "$ROOT/etc/systemd/system/multi-user.target.wants/sysomd.service" ]
ok "the preload has its bare name" eval 'inside LD_PRELOAD=libsysom_preload.so true 2>"$WORK/preload.err" && [ ! -s "$WORK/preload.err" ]'

cat >"$WORK/trial" <<'EOS'
sed -i '/^node:/,/name:/s#name: ""#name: trial-node#; /^tls:/,/name:/s#name: ""#name: aggregator#' /etc/sysom/sysomd.yaml
cd /site
WORK=/tmp
. tests/e2e/page.sh
mkdir /authority
(umask 077 # the strictest that an administrator may have
cd /authority
HOST=aggregator
eval "$(page_block /site/README.md "Certificates and tokens" 1 | sed '/^HOST=/d; s/node-1/trial-node/; /^sysom-aggregator /,$d')"
for name in trial-node aggregator; do eval "$(page_block /site/deploy/README.md Certificates 1 | sed "s/NAME/$name/g")"; done)
for side in sysomd:trial-node sysom-aggregator:aggregator; do
	page_block deploy/README.md Certificates 2 | sed "s/NAME/${side#*:}/g" | while read -r key value; do
		[ -z "$value" ] || sed -i "/^tls:/,/^[^ ]*$/s#^  $key \"\"#  $key $value#" "/etc/sysom/${side%:*}.yaml"
	done
done
page_block deploy/README.md Certificates 3 | sed 's/NAME/aggregator/g' | bash -ex
printf '#!/bin/sh\nexec simjob --ranks 4 --seconds 30 --seed 7 --fault late:rank=2:start=12s:steps=2000:size=2\n' >/usr/local/bin/torchrun
chmod +x /usr/local/bin/torchrun
page_lines README.md "Use it" 3 systemctl LD_PRELOAD && . /tmp/lines.1
echo "units $(systemctl is-active sysom-aggregator sysomd sysomd.socket sysomd-control.socket | uniq)"
echo "root $(systemctl show -P User sysomd) $(ps -o user= -p "$(systemctl show -P MainPID sysomd)" | grep -c root)"
setpriv --reuid=1234 --regid=1234 --clear-groups env SYSOM_JOB=packed bash -c "$(cat /tmp/lines.2)" &
for try in $(seq 45); do
	sleep 1
	id=$(sysom incidents --json | jq -r '[.incidents[]|select(.job|startswith("packed"))][0].id // empty')
	[ "$id" ] && [ "$(sysom show "$id" --json | jq -r .diagnosis.cause)" = cpu-sleep ] && break
done
sysom show "$id" --json | jq -r '"blamed \([.ranks[]|tostring]|join(",")) \(.diagnosis.layer) \(.diagnosis.cause) on \(.nodes[0])"'
wait
echo "$(journalctl --no-pager -u sysomd | grep -o 'connected by TLS' | sort -u)"
for unit in sysomd sysom-aggregator; do
	echo "rights $unit $(awk '/^(Cap...|NoNewPrivs|Seccomp):/{printf "%s%s%s", with, $1, $2; with = " "}' "/proc/$(systemctl show -P MainPID $unit)/status")"
done
ip addr add 192.0.2.1/32 dev lo # getaddrinfo() knows no name where there is no address but loopback's
page_lines README.md "In Slurm" 1 'apt install' systemctl && . /tmp/lines.2
systemctl start munge slurmctld slurmd
for try in $(seq 30); do sinfo -h -o %T | grep -qx idle && break; sleep 1; done
install -d -o games /home/games
cd /home/games
printf '#!/bin/sh\n#SBATCH -n 4 -J trained -o train.out --wait\nexec srun torchrun\n' >train.sh
sed -i 's/exec simjob/exec simjob --join \/home\/games\/join/' /usr/local/bin/torchrun
setpriv --reuid=games --regid=games --clear-groups bash -c "$(page_block /site/README.md "In Slurm" 2)"
grep '^sysom:' train.out
echo "sbatch $(grep -c '^sysom: job trained#.*4 ranks on 1 node.*1 incident' train.out) $(grep -c '^sysom: rank 2 is slow' train.out) $(grep -c 'cause cpu-sleep' train.out)"
systemctl stop slurmd slurmctld munge
cd /authority
export HOST=aggregator.test
echo "127.0.0.1 $HOST" >>/etc/hosts
(eval "$(page_block /site/README.md "Certificates and tokens" 1 | sed -n '/^issue()/,/^}/p')"
for block in 1 2 3; do eval "$(page_block /site/deploy/README.md "HTTP: tokens and TLS" $block)"; done)
sed -i '/^http:/,/^$/d' /etc/sysom/sysom-aggregator.yaml
page_block /site/deploy/README.md "HTTP: tokens and TLS" 4 | sed "s/HOST/$HOST/" >>/etc/sysom/sysom-aggregator.yaml
systemctl restart sysom-aggregator
asked() { curl -s --cacert ca.crt -o /dev/null -w '%{http_code}' "https://$HOST:9472/api/v1/jobs" "$@"; }
echo "https $(asked -H "$(awk '/^read prometheus/{print "Authorization: Bearer " $3}' /etc/sysom/tokens)") $(asked -H "Authorization: Bearer none") $(asked -H "Host: other")"
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
	pid=$(systemctl show -P MainPID $unit)
	[ "$pid" = 0 ] || kill -STOP "$pid"
	for try in $(seq 60); do sleep 1; [ "$(systemctl show -P NRestarts $unit)" -ge 1 ] && systemctl -q is-active $unit && break; done
	echo "hung $unit: $(systemctl is-active $unit) again after $(journalctl -b --no-pager -u $unit | grep -c 'Watchdog timeout')"
done
systemctl stop sysomd sysomd.socket sysomd-control.socket sysom-aggregator
ls -d /var/lib/sysom /var/lib/sysom-aggregator
journalctl --no-pager -u sysomd -u sysom-aggregator | grep 'level=\(error\|warn\)' >&2
EOS
boot "$WORK/trial"
ok "both daemons run under their units" said "units active"
ok "sysomd connects with its certificate" said "connected by TLS"
ok "sysomd is not root" said "root sysomd 0"
ok "the fault of a job with LD_PRELOAD=libsysom_preload.so is found" said "blamed 2 cpu cpu-sleep on trial-node"
for unit in sysomd sysom-aggregator; do
	ok "$unit has the rights of its unit alone" said "$(rights $unit)"
done
ok "sbatch --sysom: the job's output has rank and cause" said "sbatch 1 1 1"
ok "HTTPS with a token, a wrong token, a foreign name" said "https 200 401 421"
ok "neither daemon was restarted" said "alive 0"
ok "the units have a watchdog" said "watchdogs 1min"
ok "a sysomd that hangs is started again by its watchdog" said "hung sysomd: active again after 1"
ok "and so is an aggregator" said "hung sysom-aggregator: active again after 1"
ok "an upgrade keeps the settings" eval 'install_all --reinstall install && grep -q "name: trial-node" "$ROOT/etc/sysom/sysomd.yaml"'
rm -r "$ROOT/etc/sysom/tls" "$ROOT/etc/sysom/tokens" "$ROOT/etc/systemd/system/sysom-aggregator.service.d" # what the administrator made
ok "a purge" eval 'inside apt-get -qy purge sysom sysomd sysom-aggregator libsysom-preload libsysom-preload-dev sysom-sim sysom-slurm >"$WORK/purge.log" 2>&1'
ok "leaves nothing" untouched
ok "README.md has a first command" page_lines README.md "See it work" 1 'apt install' '^make demo$'
ok "which a bare Debian needs" eval '! inside git --version && ! inside make --version' 2>"$WORK/bare.err"
ok "and which suffices for the second" eval 'installed "$(cat "$WORK/lines.1")" && inside git --version >/dev/null && inside make --version >/dev/null'
finish
