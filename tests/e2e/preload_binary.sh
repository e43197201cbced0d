#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What libsysom_preload.so is as a binary: its exports, its needs, the oldest glibc, its flags, the tail jump.
# needs: command:readelf command:objdump
B=${B:-build/gcc}
so=$B/lib/libsysom_preload.so
n=0
check() { # check STATUS TEXT
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sed -n 's/^HOOK(\([A-Za-z0-9_]*\),.*/\1/p' preload/hooks.def >"$dir/want"
printf '%s\n' sysom_step_begin sysom_step_end sysom_span_begin sysom_span_end InitializeInjection \
	InitializeInjectionNvtx2 >>"$dir/want"
for v in 1 2 3 4 5 6; do
	echo ncclProfiler_v$v >>"$dir/want"
done
sort -o "$dir/want" "$dir/want"
readelf -W --dyn-syms "$so" | awk '$1 ~ /^[0-9]+:$/ && $5 != "LOCAL" && $6 != "HIDDEN" && $7 != "UND" && $8 {print $8}' | sed 's/@.*//' | sort >"$dir/have"
diff "$dir/want" "$dir/have" >"$dir/diff"
check $? "exports the hook table and the public names, nothing else"
sed 's/^/# /' "$dir/diff"

[ "$(readelf -W --dyn-syms "$so" | awk '$6 == "HIDDEN" {print $8}' | sort | xargs)" = "__libc_start_main stdin" ]
check $? "hides what is there for musl"

readelf -dW "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so\.6|ld-linux.*)$' >"$dir/needed"
[ ! -s "$dir/needed" ]
check $? "needs the C library only"
objdump -T "$so" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1 >"$dir/glibc"
grep -oE 'glibc \(?[0-9]+\.[0-9]+' README.md docs/*.md deploy/*.md cli/help.txt | sed 's/glibc (//; s/glibc //' >"$dir/stated"
[ "$(wc -l <"$dir/stated")" -ge 3 ] && [ "$(sed 's/.*://' "$dir/stated" | sort -u)" = "$(cat "$dir/glibc")" ]
check $? "asks for no newer glibc than the manual and the help say, and for no older one: $(cat "$dir/glibc")"
sed 's/^/# /' "$dir/stated"
readelf -dW "$so" | grep -q 'NODELETE' && readelf -dW "$so" | grep -q 'NOW'
check $? "is bound at start and never unloaded"
readelf -dW "$so" | grep -q 'STATIC_TLS'
check $? "uses initial-exec thread storage"
! readelf -rW "$so" | grep -qE 'DTPMOD|TLSDESC'
check $? "has no thread storage that allocates at first use"
tls=$(readelf -lW "$so" | awk '$1 == "TLS" {print $6}')
[ "$((tls))" -gt 0 ] && [ "$((tls))" -le 64 ]
check $? "takes at most 64 bytes of thread storage"

objdump -d --no-show-raw-insn "$so" | awk '/^[0-9a-f]+ <(dlsym|wrap_dlsym)>:/ {on=1} on && /^$/ {exit} on' >"$dir/dlsym"
grep -qE 'jmp +\*(%r|0x)' "$dir/dlsym" || grep -qE '\bbr\s+x' "$dir/dlsym"
check $? "dlsym ends in a jump to the real one"
echo "1..$n"
