#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units.sh - the systemd units: how exposed the daemons are, and that sysomd does all its work as an
# ordinary user with the unit's capabilities and with sockets that somebody else made.
. "$(dirname "$0")/lib.sh"
SERVICE=conf/sysomd.service
exposed_at_most() { # unit tenths
	local level
	level=$(systemd-analyze security --offline=true --no-pager "$1" | sed -n 's/.*exposure level for .*: \([0-9.]*\).*/\1/p')
	echo "# $1: $level"
	[ -n "$level" ] && [ "${level/./}" -le "$2" ]
}
verified() { # every line but those of the programs that are not installed here
	sed 's|^ExecStart=/usr/local/bin/[a-z-]*|ExecStart=/bin/true|' "$1" >"$WORK/$(basename "$1")"
}
if command -v systemd-analyze >/dev/null; then
	ok "sysomd.service is exposed by 4.0 at most" exposed_at_most "$SERVICE" 40
	ok "sysom-aggregator.service by 2.0" exposed_at_most conf/sysom-aggregator.service 20
	for unit in conf/*.service conf/*.socket; do verified "$unit"; done
	ok "systemd finds nothing wrong in the units" eval '! systemd-analyze verify --man=no "$WORK"/*.service "$WORK"/*.socket 2>&1 | grep "^$WORK\|sysom.*: \(Unknown\|Failed\|Invalid\)"'
else
	skip "how exposed the daemons are" "needs command:systemd-analyze"
fi
if [ "$(id -u)" != 0 ]; then
	skip "sysomd as the unit runs it" "needs root"
	finish
fi

caps() { # the unit's, as setpriv names them
	sed -n 's/^AmbientCapabilities=//p' "$SERVICE" | tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g'
}
chmod 755 "$WORK"
cp -rL "$BIN" "$B/lib" "$WORK/" # other users may not see the build tree
BIN=$WORK/bin
mkdir "$WORK/state" && chown 61234:61234 "$WORK/state"
export SYSOM_SOCKET_PATH=$WORK/sysomd.sock SYSOM_CONTROL_PATH=$WORK/control.sock
read -r -a ports <<<"$(free_ports 1)"
STACK_NODE_HTTP=${ports[0]}
# systemd's part: listens as root, passes the sockets, hears what the daemon says of itself
cat >"$WORK/manager.py" <<'PY'
import os, socket, sys
work, notes, command = sys.argv[1], sys.argv[2], sys.argv[3:]
attach = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
attach.bind(os.environ["SYSOM_SOCKET_PATH"])
os.chmod(os.environ["SYSOM_SOCKET_PATH"], 0o666)
attach.listen(128)
control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
control.bind(os.environ["SYSOM_CONTROL_PATH"])
os.chmod(os.environ["SYSOM_CONTROL_PATH"], 0o600)
control.listen(32)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(work + "/notify")
os.chmod(work + "/notify", 0o666)
pid = os.fork()
if not pid:
    fds = [os.dup(attach.fileno()), os.dup(control.fileno())]
    os.dup2(fds[0], 3)
    os.dup2(fds[1], 4)
    for fd in (3, 4):
        os.set_inheritable(fd, True)
    os.environ.update(LISTEN_FDS="2", LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET=work + "/notify",
                      WATCHDOG_USEC="60000000")
    os.execvp(command[0], command)
print(pid, flush=True)
with open(notes, "w", buffering=1) as f:
    notify.settimeout(0.2)
    while True:
        try:
            f.write(notify.recv(4096).decode() + "\n")
        except TimeoutError:
            pass
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            f.write(f"status {status}\n")
            break
PY
# The unit's memory and tasks, as groups of the kernel's: all that follows runs in them.
unit() { sed -n "s/^$1=//p" "$SERVICE"; }
groups=()
group() { # controller, its file of version 1 and of 2, value
	local at=/sys/fs/cgroup/$1/sysom-units-$$ file=$2
	[ -d "/sys/fs/cgroup/$1" ] || { at=/sys/fs/cgroup/sysom-units-$$; file=$3; }
	[ -n "$4" ] && mkdir -p "$at" && echo "$4" >"$at/$file" && groups+=("$at")
}
inside() { # command...
	(for at in "${groups[@]}"; do echo "$BASHPID" >"$at/cgroup.procs"; done; exec "$@")
}
group memory memory.limit_in_bytes memory.max "$(unit MemoryMax)" && group pids pids.max pids.max "$(unit TasksMax)"
inside /usr/bin/python3 "$WORK/manager.py" "$WORK" "$WORK/notes" setpriv --reuid 61234 --regid 61234 --clear-groups \
	--inh-caps "-all,$(caps)" --ambient-caps "-all,$(caps)" --bounding-set "-all,$(caps)" --no-new-privs \
	"$BIN/sysomd" --state-dir "$WORK/state" --http-listen "127.0.0.1:$STACK_NODE_HTTP" --uplink-url "" \
	>"$WORK/manager.out" 2>"$WORK/sysomd.log" &
manager=$!
ok "sysomd says that it is ready" stack_wait 30 grep -q '^READY=1' "$WORK/notes"
daemon=$(head -n 1 "$WORK/manager.out")
ok "it runs as an ordinary user" is "$(stat -c %u "/proc/$daemon")" 61234
setpriv --reuid 61235 --regid 61235 --clear-groups "$BIN/sysom" run -- "$BIN/simjob" --ranks 2 --seconds 600 \
	>"$WORK/job.log" 2>&1 &
job=$!
SOCKET_URL=(curl -sf -m 10 --unix-socket "$SYSOM_CONTROL_PATH" http://localhost/api/v1/status)
if [ -e /sys/kernel/btf/vmlinux ]; then
	ok "stacks are unwound in the kernel" stack_wait 30 eval '"${SOCKET_URL[@]}" | jq -r .mode.stacks | grep -q "^bpf"'
else
	skip "stacks are unwound in the kernel" "needs bpf"
fi
ok "jobs of other users attach to it" stack_wait 30 eval '"${SOCKET_URL[@]}" | jq -e "[.ranks[] | select(.events > 0)] | length == 2" >/dev/null'
ok "root switches tracing off through the control socket" "$BIN/sysom" off
ok "the watchdog hears of it" stack_wait 30 grep -q '^WATCHDOG=1' "$WORK/notes"
kill -TERM "$job" "$daemon" 2>/dev/null
wait "$job" "$manager" 2>/dev/null
ok "it says that it stops, and ends well" eval 'grep -q "^STOPPING=1" "$WORK/notes" && grep -q "^status 0" "$WORK/notes"'
if [ ${#groups[@]} = 2 ]; then
	# locked, so that what is more can't go to swap
	takes() { # MiB
		inside /usr/bin/python3 -c 'import ctypes, mmap, sys
ctypes.CDLL(None).mlockall(2)
mmap.mmap(-1, int(sys.argv[1]) << 20)
print("has it")' "$1" 2>/dev/null
	}
	forks() { # children at a time
		inside /usr/bin/python3 -c 'import os, signal, sys
children = []
try:
    for _ in range(int(sys.argv[1])):
        pid = os.fork()
        if not pid:
            signal.pause()
        children.append(pid)
except BlockingIOError:
    pass
for pid in children:
    os.kill(pid, signal.SIGKILL)
print(len(children))' "$1"
	}
	ok "a process of the unit may have 400 MiB" is "$(takes 400)" "has it"
	ok "and not 520" is "$(takes 520)" ""
	ok "a process of the unit may have 255 children and no more" is "$(forks 300)" 255
	rmdir "${groups[@]}"
else
	skip "the unit's memory and tasks" "needs memory-group"
fi
ok "the sockets stay: they are not its own" eval '[ -S "$SYSOM_SOCKET_PATH" ] && [ -S "$SYSOM_CONTROL_PATH" ]'
finish
