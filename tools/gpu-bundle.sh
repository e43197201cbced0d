#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A relocatable tree of everything that `make check-gpu` needs on a machine without a compiler,
# packages or BPF: programs, the preload, their shared libraries ($ORIGIN/../lib) and the tests.
# usage: tools/gpu-bundle.sh BUILD OUT; then, there: OUT/check-gpu
set -euo pipefail
B=$1 out=$2
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/tests/gpu" "$out/tools"
for p in sysom sysom-full sysomd sysom-aggregator; do
	cp "$B/bin/$p" "$out/bin/"
	strip --strip-debug "$out/bin/$p"
	# the C library stays the machine's own
	ldd "$B/bin/$p" | awk '$3 ~ /^\//{print $3}' |
		grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' |
		xargs -r cp -Lnt "$out/lib/"
done
cp "$B/lib/libsysom_preload.so" "$out/lib/"
cp tests/gpu/*.py tests/gpu/run.sh "$out/tests/gpu/"
cp tools/stack.sh tools/free_ports.py "$out/tools/"
cat >"$out/check-gpu" <<'EOF'
#!/bin/bash
cd "$(dirname "$0")" && exec bash tests/gpu/run.sh .
EOF
chmod +x "$out/check-gpu"
mib=$(du -sm "$out" | cut -f1)
echo "$out: $mib MiB"
[ "$mib" -le 50 ] || { echo "larger than 50 MiB" >&2; exit 1; }
