#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes PACKAGE.files for the spec from the lists of the Debian packages (deploy/debian), so that both
# formats have the same files. usage: deploy/rpm/files.sh BUILDROOT OUTPUT_DIR   (in the source)
# What Debian moves below etc/ is moved here too; all else stays where `make install` puts it.
set -euo pipefail
root=$1
out=$2
lists=deploy/debian
rpm_path() { sed 's|^usr/lib/\*/|usr/lib64/|; s|/slurm-wlm/|/slurm/|' <<<"$1"; }
rm -rf $(sed "s|^|$root/|" $lists/not-installed)
for package in $(sed -n 's/^Package: //p' $lists/control); do
	files=$out/$package.files
	: >"$files"
	while read -r from to; do
		from=$(rpm_path "$from")
		case ${to:-} in
		etc/*)
			[ -e "$root/$from" ] && source=$root/$from || source=$from
			install -D -m 644 "$source" "$root/$to/${from##*/}"
			[ "$source" = "$from" ] || rm "$source"
			echo "%config(noreplace) /$to/${from##*/}" >>"$files"
			case $to in *sysom*) echo "%dir /$to" >>"$files" ;; esac
			;;
		*)
			echo "/$from" >>"$files"
			case $from in
			usr/lib/sysom/*) echo "%dir /usr/lib/sysom" >>"$files" ;;
			usr/share/sysom/*) echo "%dir /usr/share/sysom" >>"$files" ;;
			esac
			;;
		esac
	done <"$lists/$package.install"
	[ ! -e $lists/$package.manpages ] || sed 's|^|/|; s|$|*|' $lists/$package.manpages >>"$files"
done
