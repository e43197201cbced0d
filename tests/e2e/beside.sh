# SPDX-License-Identifier: Apache-2.0
# beside.sh - sysomd in a container, and its job in another one, as in a Pod. Source it after podman.sh.
ALL=(BPF PERFMON SYS_PTRACE CHECKPOINT_RESTORE DAC_READ_SEARCH SYS_NICE SYSLOG)
HERE=$WORK/here # what the containers see of this tree
CONTROL=$HERE/control.sock

prepared() {
	chmod 755 "$WORK" && mkdir -p "$HERE/tests" && cp -r "$BIN" "$B/lib" sim tests/e2e "$HERE" && mv "$HERE/e2e" "$HERE/tests" &&
		pod_bare_image 1
}
container() { # name options -- command...: in the process namespace of "pause", and in a cgroup of its own
	local name=$1 options=()
	shift
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	pod run -d --name "$name" --network=host --cgroupns=private --security-opt seccomp=unconfined --cap-drop all \
		-v /usr:/usr:ro -v /etc:/etc:ro -v "$HERE:$HERE" -w "$HERE" "${options[@]}" localhost/bare:1 "$@" >/dev/null
}
status() { pod exec sysomd bin/sysom status --control "$CONTROL" --json 2>/dev/null | jq -r ".node$1"; }
sysomd_with() { # capabilities...
	local options=() c
	for c; do options+=(--cap-add "$c"); done
	rm -rf "$HERE/state" "$CONTROL" && mkdir -m 755 "$HERE/state"
	container sysomd --pid=container:pause "${options[@]}" -e SYSOM_SOCKET_PATH="$HERE/sysomd.sock" -e SYSOM_CONTROL_PATH="$CONTROL" \
		-e SYSOM_STATE_DIR="$HERE/state" -e SYSOM_HTTP_LISTEN= -e SYSOM_UPLINK_URL="$STACK_NNG" -e SYSOM_NODE_NAME=beside \
		-- bin/sysomd && stack_wait 30 is_open
}
is_open() { [ -n "$(status .os.mode)" ] && [ "$(status .os.mode)" != starting ] && [ "$(status .mode.stacks)" != starting ]; }
job() { # options -- command...: as an ordinary user
	container job --pid=container:pause --user 1000 -e LD_PRELOAD="$HERE/lib/libsysom_preload.so" -e SYSOM_SOCKET_PATH="$HERE/sysomd.sock" \
		-e LD_LIBRARY_PATH="$HERE/lib/sim" -e SIM_LIB="$HERE/lib/sim" "$@"
}
gone() { # names: podman at times fails at the first try
	local name
	for name; do stack_wait 20 eval "pod rm -f -t 1 $name; ! pod container exists $name"; done
}
