#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# release.sh - all files of a release, twice, byte for byte.
# long: builds all packages and the image twice
. "$(dirname "$0")/lib.sh"
for need in command:dh command:rpmbuild "file:$B/lib/slurm/spank_sysom.so" root mirror; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "a release" "needs $need"; finish; exit; }
done
ONE=$WORK/one TWO=$WORK/two
released() { # directory [build tree]
	env -u MAKEFLAGS -u MAKELEVEL B="${2:-}" deploy/release.sh "$1" >"$WORK/release.log" 2>&1
}
is_complete() {
	is "$(cd "$ONE" && printf '%s\n' * | sed 's/.*\.//' | sort | uniq -c | xargs)" "1 SHA256SUMS 13 deb 2 gz 1 json 7 rpm" ||
		{ ls "$ONE" | sed 's/^/# /'; return 1; }
}
sums_hold() { (cd "$ONE" && sha256sum --quiet -c SHA256SUMS) && is "$(wc -l <"$ONE/SHA256SUMS")" $(($(ls "$ONE" | wc -l) - 1)); }
same_bytes() { diff "$ONE/SHA256SUMS" "$TWO/SHA256SUMS" | sed 's/^/# /' >"$WORK/diff"; cat "$WORK/diff"; [ ! -s "$WORK/diff" ]; }
source_is_whole() {
	tar -tzf "$ONE"/sysom-[0-9]*.tar.gz | sed 's|^[^/]*/||; /\/$/d; /^$/d' | sort >"$WORK/packed"
	git ls-files | LC_ALL=C sort >"$WORK/known"
	LC_ALL=C sort -o "$WORK/packed" "$WORK/packed"
	diff "$WORK/packed" "$WORK/known" >"$WORK/diff"
}
versions_agree() {
	local version
	version=$(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)
	is "$(sed -n 's/^Version: //p' deploy/rpm/sysom.spec)" "$version" &&
		is "$(sed -n '1s/.*(\(.*\)-1).*/\1/p' deploy/debian/changelog)" "$version"
}
ok "all versions agree" versions_agree
ok "a release, built from its source" released "$ONE"
ok "has source, packages of both formats, an image and its list" is_complete
ok "its checksums hold" sums_hold
ok "the source is all that git has" source_is_whole
ok "the same release of what is built in this tree" released "$TWO" "$B"
ok "has the same bytes, though built elsewhere" same_bytes
finish
