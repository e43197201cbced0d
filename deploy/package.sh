#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian packages. usage: deploy/package.sh deb OUTPUT_DIR
# The source is what git has of this tree. With B, the build tree of `make`, nothing is compiled that
# is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
out=$(realpath -m "$2")
version=$(sed -n 's/^#define SYSOM_VERSION "\(.*\)"/\1/p' base/version.h)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
src=$work/sysom-$version
mkdir -p "$out" "$src"
git ls-files -z | xargs -0 cp -a --parents -t "$src"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
	-czf "$work/sysom_$version.orig.tar.gz" "sysom-$version"
if [ -n "${B:-}" ]; then
	mkdir -p "$src/build"
	cp -a "$B" "$src/build/gcc"
fi
case $kind in
deb)
	cp -a deploy/debian "$src/debian"
	(cd "$src" && DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -b -us -uc -d >"$work/log" 2>&1) || {
		tail -n 40 "$work/log" >&2
		exit 1
	}
	cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out"
	;;
*)
	echo "package.sh: no such kind: $kind (deb)" >&2
	exit 2
	;;
esac
ls -1sh "$out"
