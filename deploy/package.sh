#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes packages. usage: deploy/package.sh KIND[,KIND...] OUTPUT_DIR   kinds: source deb rpm
# The source is what git has of this tree, with its last commit's time, so that the same tree makes the
# same bytes. One build serves all kinds; with B, the build tree of `make`, nothing is compiled that is
# there already.
set -euo pipefail
cd "$(dirname "$0")/.."
read -r -a kinds <<<"${1//,/ }"
out=$(realpath -m "$2")
for kind in "${kinds[@]}"; do
	case $kind in
	source | deb | rpm) ;;
	*)
		echo "package.sh: no such kind: $kind (source deb rpm)" >&2
		exit 2
		;;
	esac
done
version=$(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
src=$work/sysom-$version
mkdir -p "$out" "$src"
step() { # command... : its output only if it fails
	"$@" >"$work/log" 2>&1 || {
		tail -n 40 "$work/log" >&2
		exit 1
	}
}
git ls-files -z | xargs -0 cp -a --parents -t "$src"
# Modes and times as the commit has them, not as this checkout.
chmod -R u=rwX,go=rX "$src"
find "$src" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - \
	"sysom-$version" | gzip -n >"$work/sysom-$version.tar.gz"
if [ -n "${B:-}" ]; then
	mkdir -p "$src/build"
	cp -a "$B" "$src/build/gcc"
	# nothing of it is older than its source, or than another part
	now=$(date +%s)
	find "$src/build" -exec touch -h -d "@$now" {} +
fi
case "${kinds[*]}" in *deb* | *rpm*) step env -C "$src" DEPS=no CC=gcc make "-j$(nproc)" programs ;; esac
for kind in "${kinds[@]}"; do
	case $kind in
	source) cp "$work/sysom-$version.tar.gz" "$out" ;;
	deb)
		cp -a deploy/debian "$src/debian"
		cp "$work/sysom-$version.tar.gz" "$work/sysom_$version.orig.tar.gz"
		DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" step env -C "$src" dpkg-buildpackage -b -us -uc -d
		cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out"
		;;
	rpm)
		step env -C "$src" rpmbuild -bb --nodeps --build-in-place --define "_topdir $work/rpm" \
			--define "debug_package %{nil}" --define "_buildhost localhost" \
			--define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
			deploy/rpm/sysom.spec
		cp "$work"/rpm/RPMS/*/*.rpm "$out"
		;;
	esac
done
ls -1sh "$out"
