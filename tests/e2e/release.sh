#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# release.sh - all files of a release, twice, byte for byte; both package formats have the same files;
# piuparts installs, upgrades and purges the Debian packages; rpm installs and removes the others.
. "$(dirname "$0")/lib.sh"
for need in command:dh command:rpmbuild command:mmdebstrap command:piuparts "file:$B/lib/slurm/spank_sysom.so" root mounts mirror; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "a release" "needs $need"; finish; exit; }
done
ONE=$WORK/one TWO=$WORK/two ROOT=$WORK/root
released() { # directory
	deploy/release.sh "$1" >"$WORK/release.log" 2>&1
}
is_complete() { # kinds of files and how many
	is "$(cd "$ONE" && printf '%s\n' * | sed 's/.*\.//' | sort | uniq -c | xargs)" "1 SHA256SUMS 14 deb 3 gz 1 json 7 rpm" ||
		{ ls "$ONE" | sed 's/^/# /'; return 1; }
}
sums_hold() { (cd "$ONE" && sha256sum --quiet -c SHA256SUMS) && is "$(wc -l <"$ONE/SHA256SUMS")" $(($(ls "$ONE" | wc -l) - 1)); }
same_bytes() { diff "$ONE/SHA256SUMS" "$TWO/SHA256SUMS" | sed 's/^/# /' >"$WORK/diff"; cat "$WORK/diff"; [ ! -s "$WORK/diff" ]; }
source_is_whole() {
	tar -tzf "$ONE"/sysom-*.tar.gz | sed 's|^[^/]*/||; /\/$/d; /^$/d' | sort >"$WORK/packed"
	git ls-files | LC_ALL=C sort >"$WORK/known"
	LC_ALL=C sort -o "$WORK/packed" "$WORK/packed"
	diff "$WORK/packed" "$WORK/known" >"$WORK/diff"
}
# Files of a package, as one layout: what differs is where the formats keep libraries and documents.
deb_files() { dpkg-deb -c "$ONE/$1"_[0-9]*.deb | awk '!/^d/{print $6}' | sed 's|^\.||'; }
rpm_files() { rpm -qpl "$ONE/$1"-[0-9]*.rpm 2>/dev/null; }
layout() {
	sed 's|^/lib/systemd/|/usr/lib/systemd/|; s|^/usr/lib/x86_64-linux-gnu/|/usr/lib64/|; s|/slurm-wlm/|/slurm/|; s|/vendor-completions/|/site-functions/|; s|\.gz$||' |
		grep -v '^/usr/share/\(doc\|licenses\|lintian\)\|^/usr/lib/\.build-id\|^/usr/lib/sysom/\(sim\|slurm\)$' | sort
}
same_files() {
	local package
	for package in $(sed -n 's/^Package: //p' deploy/debian/control); do
		diff <(deb_files "$package" | layout) <(rpm_files "$package" | layout) >"$WORK/diff" ||
			{ sed "s/^/# $package: /" "$WORK/diff"; return 1; }
	done
}
versions_agree() {
	local version
	version=$(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)
	is "$(sed -n 's/^Version: //p' deploy/rpm/sysom.spec)" "$version" &&
		is "$(sed -n '1s/.*(\(.*\)-1).*/\1/p' deploy/debian/changelog)" "$version"
}
# An earlier version of the packages, as a repository.
earlier() {
	local deb dir=$WORK/tree
	mkdir "$WORK/repo"
	for deb in $(ls "$ONE"/*.deb | grep -v dbgsym); do
		rm -rf "$dir"
		dpkg-deb -R "$deb" "$dir" && sed -i '/^Version:/s/:.*/: 0.0.9-1/; s/(= [^)]*)/(= 0.0.9-1)/g' "$dir/DEBIAN/control" &&
			dpkg-deb -b "$dir" "$WORK/repo/" >/dev/null || return
	done
	(cd "$WORK/repo" && dpkg-scanpackages . >Packages 2>/dev/null)
}
base() { mmdebstrap --quiet --variant=minbase bookworm "$WORK/base.tar" >"$WORK/mmdebstrap.log" 2>&1 && gzip -1 "$WORK/base.tar"; }
piuparts_is_content() {
	piuparts --basetgz="$WORK/base.tar.gz" -d bookworm -m http://deb.debian.org/debian --tmpdir="$WORK" \
		--bindmount="$WORK/repo" --extra-repo="deb [trusted=yes] file:$WORK/repo ./" \
		$(ls "$ONE"/*.deb | grep -v dbgsym) >"$WORK/piuparts.log" 2>&1
}
upgraded() { grep -q "INFO: PASS: Upgrading between Debian\|INFO: Installation, upgrade and purging tests\|PASS: .*pgrad" "$WORK/piuparts.log" && ! grep -q "Can't test upgrade" "$WORK/piuparts.log"; }
# A system of which rpm knows nothing but these packages; its libraries come from Debian.
bare() {
	mkdir "$ROOT" && tar -C "$ROOT" -xzf "$WORK/base.tar.gz" && cp /etc/resolv.conf "$ROOT/etc/" && mkdir "$ROOT/debs" &&
		cp "$ONE"/*.deb "$ROOT/debs" && rm "$ROOT"/debs/*dbgsym* &&
		chroot "$ROOT" sh -c 'apt-get -q update && apt-get -qy --no-install-recommends install /debs/*.deb && apt-get -qy purge sysom sysomd sysom-aggregator libsysom-preload' >"$WORK/bare.log" 2>&1
}
by_rpm() { rpm --root "$ROOT" --nodeps --nosignature "$@" >>"$WORK/rpm.log" 2>&1; }
rpm_works() {
	is "$(chroot "$ROOT" /usr/bin/sysom --version)" "sysom $(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)" &&
		chroot "$ROOT" /usr/bin/sysomd --check-config >/dev/null && chroot "$ROOT" /usr/bin/sysom-aggregator --check-config >/dev/null &&
		chroot "$ROOT" env LD_PRELOAD=/usr/lib/sysom/libsysom_preload.so true 2>"$WORK/preload.err" && [ ! -s "$WORK/preload.err" ]
}
rpm_dependencies() { # those that nobody outside can give, and the ones between the packages
	rpm -qp --requires "$ONE"/*.rpm 2>/dev/null | grep '^lib\(cuda\|cupti\|nccl\|nvidia\)' && return 1
	rpm -qp --provides "$ONE"/sysom-sim*.rpm 2>/dev/null | grep '^libcuda' && return 1
	rpm -qp --requires "$ONE"/sysomd-*.rpm 2>/dev/null | grep -q '^libbpf\.so\.1' &&
		rpm -qp --requires "$ONE"/sysom-slurm-*.rpm 2>/dev/null | grep -qx "libsysom-preload = [0-9.]*-1"
}
settings_kept() { sed -i 's#^  name: ""#  name: kept#' "$ROOT/etc/sysom/sysomd.yaml" && by_rpm -U --replacepkgs --force "$ONE"/sysomd-[0-9]*.rpm && grep -q "name: kept" "$ROOT/etc/sysom/sysomd.yaml"; }
left() { find "$ROOT"/etc "$ROOT"/usr -iname '*sysom*' ! -name '*.rpmsave' ! -path '*/deb-systemd-helper*'; }

ok "all versions agree" versions_agree
ok "a release" released "$ONE"
ok "has source, packages of both formats, an image and its list" is_complete
ok "its checksums hold" sums_hold
ok "the source is all that git has" source_is_whole
sleep 1
ok "the same release again" released "$TWO"
ok "has the same bytes" same_bytes
ok "both formats have the same files" same_files
ok "a base system" base
ok "an earlier version" earlier
ok "piuparts installs, upgrades and purges without a trace" piuparts_is_content
ok "and had a version to upgrade from" upgraded
ok "rpm's dependencies" rpm_dependencies
ok "a system for rpm" bare
ok "rpm installs all packages" by_rpm -i "$ONE"/*.rpm
ok "the programs run" rpm_works
ok "an upgrade keeps settings" settings_kept
ok "rpm removes them" by_rpm -e sysom sysomd sysom-aggregator libsysom-preload libsysom-preload-dev sysom-slurm sysom-sim
ok "without a trace" is "$(left)" ""
finish
