#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# package_tools.sh - both package formats have the same files; piuparts installs, upgrades and purges the
# Debian packages; rpm installs, upgrades and removes the others.
# long: piuparts installs and removes all packages, twice
. "$(dirname "$0")/lib.sh"
for need in command:dh command:rpmbuild command:mmdebstrap command:piuparts "file:$B/lib/slurm/spank_sysom.so" root mounts mirror; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "packages with piuparts and rpm" "needs $need"; finish; exit; }
done
ROOT=$WORK/root
# Files of a package, as one layout: what differs is where the formats keep libraries and documents.
deb_files() { dpkg-deb -c "$PACKAGES/$1"_[0-9]*.deb | awk '!/^d/{print $6}' | sed 's|^\.||'; }
rpm_files() { rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$PACKAGES/$1"-[0-9]*.rpm 2>/dev/null | awk '!/^d/{print $2}'; }
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
# An earlier version of the packages, as a repository.
earlier() {
	local deb dir=$WORK/tree
	mkdir "$WORK/repo"
	for deb in $(ls "$PACKAGES"/*.deb | grep -v dbgsym); do
		rm -rf "$dir"
		dpkg-deb -R "$deb" "$dir" && sed -i '/^Version:/s/:.*/: 0.0.9-1/; s/(= [^)]*)/(= 0.0.9-1)/g' "$dir/DEBIAN/control" &&
			dpkg-deb -b "$dir" "$WORK/repo/" >/dev/null || return
	done
	(cd "$WORK/repo" && dpkg-scanpackages . >Packages 2>/dev/null)
}
base() { mmdebstrap --quiet --variant=minbase bookworm "$WORK/base.tar" >"$WORK/mmdebstrap.log" 2>&1 && gzip -1 "$WORK/base.tar"; }
piuparts_is_content() {
	piuparts --basetgz="$WORK/base.tar.gz" -d bookworm -m "$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' | awk '$1=="bookworm"{print $2; exit}')" --tmpdir="$WORK" \
		--bindmount="$WORK/repo" --extra-repo="deb [trusted=yes] file:$WORK/repo ./" \
		$(ls "$PACKAGES"/*.deb | grep -v dbgsym) >"$WORK/piuparts.log" 2>&1
}
upgraded() { ! grep "Can.t test upgrade" "$WORK/piuparts.log"; }
# A system of which rpm knows nothing but these packages; its libraries come from Debian. Its loader looks in
# /usr/lib64, as that of a distribution with rpm does.
bare() {
	mkdir "$ROOT" && tar -C "$ROOT" -xzf "$WORK/base.tar.gz" && cp /etc/resolv.conf "$ROOT/etc/" && mkdir "$ROOT/debs" &&
		cp "$PACKAGES"/*.deb "$ROOT/debs" && rm "$ROOT"/debs/*dbgsym* &&
		chroot "$ROOT" sh -c 'apt-get -q update && apt-get -qy --no-install-recommends install /debs/*.deb && apt-get -qy purge sysom sysomd sysom-aggregator libsysom-preload' >"$WORK/bare.log" 2>&1 &&
		echo /usr/lib64 >"$ROOT/etc/ld.so.conf.d/lib64.conf"
}
by_rpm() { rpm --root "$ROOT" --nodeps --nosignature "$@" >>"$WORK/rpm.log" 2>&1; }
rpm_works() {
	is "$(chroot "$ROOT" /usr/bin/sysom --version)" "sysom $(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)" &&
		chroot "$ROOT" /usr/bin/sysomd --check-config >/dev/null && chroot "$ROOT" /usr/bin/sysom-aggregator --check-config >/dev/null &&
		preloads /usr/lib/sysom/libsysom_preload.so
}
preloads() { # library: the loader finds it, or complains
	chroot "$ROOT" env LD_PRELOAD="$1" true 2>"$WORK/preload.err" && [ ! -s "$WORK/preload.err" ]
}
rpm_dependencies() { # those that nobody outside can give, and the ones between the packages
	rpm -qp --requires "$PACKAGES"/*.rpm 2>/dev/null | grep '^lib\(cuda\|cupti\|nccl\|nvidia\)' && return 1
	rpm -qp --provides "$PACKAGES"/sysom-sim*.rpm 2>/dev/null | grep '^libcuda' && return 1
	rpm -qp --requires "$PACKAGES"/sysomd-*.rpm 2>/dev/null | grep -q '^libbpf\.so\.1' &&
		rpm -qp --requires "$PACKAGES"/sysom-slurm-*.rpm 2>/dev/null | grep -qx "libsysom-preload = [0-9.]*-1"
}
settings_kept() { sed -i 's#^  name: ""#  name: kept#' "$ROOT/etc/sysom/sysomd.yaml" && by_rpm -U --replacepkgs --force "$PACKAGES"/sysomd-[0-9]*.rpm && grep -q "name: kept" "$ROOT/etc/sysom/sysomd.yaml"; }
left() { # settings that were changed stay, as rpm does it
	rm "$ROOT/etc/sysom/sysomd.yaml.rpmsave" && rmdir --ignore-fail-on-non-empty "$ROOT/etc/sysom"
	find "$ROOT"/etc "$ROOT"/usr -iname '*sysom*' ! -path '*/deb-systemd-helper*'
}

ok "packages of both formats" packages
ok "both formats have the same files" same_files
ok "a base system" base
ok "an earlier version" earlier
ok "piuparts installs, upgrades and purges without a trace" piuparts_is_content
ok "and had a version to upgrade from" upgraded
ok "rpm's dependencies" rpm_dependencies
ok "a system for rpm" bare
ok "in which nothing has the preload's name" eval '! preloads libsysom_preload.so'
ok "rpm installs all packages" by_rpm -i "$PACKAGES"/*.rpm
ok "the programs run" rpm_works
ok "the preload has its bare name" preloads libsysom_preload.so
ok "an upgrade keeps settings" settings_kept
ok "rpm removes them" by_rpm -e sysom sysomd sysom-aggregator libsysom-preload libsysom-preload-dev sysom-slurm sysom-sim
ok "without a trace" is "$(left)" ""
finish
