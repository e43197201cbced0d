#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes all that a release has: source, Debian and RPM packages, image with its SPDX list, SHA256SUMS.
# usage: deploy/release.sh OUTPUT_DIR   OUTPUT_DIR is emptied first
# Two runs of one tree on one Debian make the same bytes: times are the last commit's
# (SOURCE_DATE_EPOCH). B, as package.sh takes it, saves compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
rm -rf "$out"
deploy/package.sh source,deb,rpm "$out"
# what the build machine had installed, for Debian's archive; not reproducible and not for users
rm -f "$out"/*.changes "$out"/*.buildinfo
deploy/image.sh "$out" "$out/sysom-image.tar"
gzip -n "$out/sysom-image.tar"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -1sh "$out"
