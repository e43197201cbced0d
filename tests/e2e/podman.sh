# SPDX-License-Identifier: Apache-2.0
# podman.sh - containers of one's own, below $WORK. Source it after lib.sh.
export CONTAINERS_CONF=$WORK/containers.conf
# Neither may be above what this machine allows.
cat >"$CONTAINERS_CONF" <<-CONF
	[containers]
	default_ulimits=["nofile=1024:1024","nproc=4096:4096"]
	[engine]
	runtime="runc"
CONF
pod() { command podman --root "$WORK/storage" --runroot "$WORK/run" --storage-driver vfs "$@"; }
pod_end() {
	pod pod rm -af >/dev/null 2>&1
	pod rm -af -t 1 >/dev/null 2>&1
	umount -R "$WORK/storage" 2>/dev/null
}
# An image that holds nothing but links: containers of it get this machine's programs.
pod_bare_image() { # tag
	local dir=$WORK/bare d
	mkdir -p "$dir"/{usr,etc,proc,sys,dev,tmp,run} && chmod 1777 "$dir/tmp" || return
	for d in bin sbin lib lib64; do ln -s "usr/$d" "$dir/$d"; done
	tar -C "$dir" -cf "$dir.tar" . && pod import -q "$dir.tar" "localhost/bare:$1" >/dev/null
}
