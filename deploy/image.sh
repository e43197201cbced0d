#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the container image from this machine's Debian mirror and the packages of package.sh: no image
# registry is asked. usage: deploy/image.sh PACKAGES_DIR OUTPUT.tar
# OUTPUT.tar is a root file system; OUTPUT.spdx.json lists what is in it. To load it:
#   podman import --change 'ENTRYPOINT ["/usr/bin/sysomd"]' OUTPUT.tar sysom
set -euo pipefail
packages=$(realpath "$1")
out=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/root"
ours=("$packages"/{sysom,sysomd,sysom-aggregator,libsysom-preload}_*.deb)
needs=$(for deb in "${ours[@]}"; do dpkg-deb -f "$deb" Depends; done | sed 's/([^)]*)//g; s/|[^,]*//g' | tr ',' '\n' | awk 'NF{print $1}' | sort -u)
# All that a machine without any package would need.
closure=$(apt-get -qq -o Dir::State::status=/dev/null --simulate --no-install-recommends install $needs |
	awk '/^Inst /{print $2 "=" substr($3, 2)}')
(cd "$work/debs" && apt-get -q download $closure) >"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	exit 1
}
for deb in "$work"/debs/*.deb "${ours[@]}"; do dpkg-deb -x "$deb" "$work/root"; done
cd "$work/root"
rm -rf usr/share/{doc,man,locale,lintian,bash-completion,zsh} usr/lib/x86_64-linux-gnu/{gconv,audit,perl-base} usr/lib/systemd lib/systemd
mkdir -p tmp run/sysom var/lib/sysom var/lib/sysom-aggregator proc sys dev
chmod 1777 tmp
chown 65532:65532 var/lib/sysom-aggregator
printf 'root:x:0:0:root:/:/sbin/nologin\nsysom:x:65532:65532:sysom:/:/sbin/nologin\n' >etc/passwd
printf 'root:x:0:\nsysom:x:65532:\n' >etc/group
ldconfig -r .
rm -f var/cache/ldconfig/aux-cache
time=${SOURCE_DATE_EPOCH:-$(git -C "$OLDPWD" log -1 --format=%ct 2>/dev/null || echo 0)}
tar --sort=name --numeric-owner --mtime="@$time" -cf "$out" .
python3 - "$out" "$time" $closure $(for deb in "${ours[@]}"; do dpkg-deb -W --showformat='${Package}=${Version}\n' "$deb"; done) >"${out%.tar}.spdx.json" <<'PY'
import datetime, hashlib, json, sys
image, time, packages = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
digest = hashlib.sha256(open(image, "rb").read()).hexdigest()
names = [p.split("=", 1) for p in packages]
print(json.dumps({
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "sysom",
    "documentNamespace": f"https://sysom.io/spdx/{digest}",
    "creationInfo": {"created": datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "creators": ["Tool: sysom-image"]},
    "packages": [{"SPDXID": f"SPDXRef-{i}", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
                  "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                    "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch=amd64"}]}
                 for i, (name, version) in enumerate(names)]}, indent=1))
PY
echo "$out: $(($(stat -c %s "$out") / 1000000)) MB, $(wc -w <<<"$closure") packages of Debian"
