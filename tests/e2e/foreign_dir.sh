#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: root
# A directory that sysomd falls back to, made by somebody else first, is refused with its name.
B=${B:-build/gcc}
DIR=$(mktemp -d) || exit 1
chmod 755 "$DIR"
cp "$B/bin/sysomd" "$DIR/sysomd"
trap 'rm -rf "$DIR" "/tmp/sysom-$ME"' EXIT
ME=64005 OTHER=64006
N=0

ok() # WHAT CONDITION...
{
	local what=$1
	shift
	N=$((N + 1))
	if "$@"; then echo "ok $N - $what"; else echo "not ok $N - $what"; sed 's/^/# /' "$DIR/log"; fi
}

# A user without /run/sysom or a runtime directory.
start()
{
	env -i PATH="$PATH" timeout 20 setpriv --reuid $ME --regid $ME --clear-groups \
		"$DIR/sysomd" --http-listen "" --uplink-url ipc:///nowhere "$@" >"$DIR/log" 2>&1
}

refused() { ! start && grep -q "/tmp/sysom-$ME $1" "$DIR/log"; }

rm -rf "/tmp/sysom-$ME"
mkdir "/tmp/sysom-$ME" && chown $OTHER "/tmp/sysom-$ME" && chmod 777 "/tmp/sysom-$ME"
ok "another user's directory is refused" refused "belongs to uid $OTHER"
chown $ME "/tmp/sysom-$ME"
ok "one that others may write is refused" refused "can be written by others"
rm -rf "/tmp/sysom-$ME"
mkdir "$DIR/mine" && chown $ME "$DIR/mine"
ln -s "$DIR/mine" "/tmp/sysom-$ME" && chown -h $OTHER "/tmp/sysom-$ME"
ok "a link is refused" refused "is not a directory"
ok "nothing was made behind the link" test -z "$(ls "$DIR/mine")"
echo "1..$N"
