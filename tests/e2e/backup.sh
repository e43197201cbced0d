#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# backup.sh - a backup that is made while windows arrive, and a restore of it: every incident and window is
# equal byte for byte. What cannot work is refused, with its reason, and changes nothing.
. "$(dirname "$0")/lib.sh"
CLIENT=$B/parts/aggregator_client
AGGREGATOR=$BIN/sysom-aggregator
F=$WORK/backup
ids() { api 'incidents?limit=1000' '.incidents[].id' | sort; }
incidents() { # ids... : each as the API serves it
	local id
	for id in "$@"; do
		echo "$id"
		curl -sf "$SYSOM_URL/api/v1/incidents/$id"
	done
}
sums() { # store: of each table's rows
	local t
	for t in windows bodies incidents findings merged totals; do
		echo "$t $(/usr/bin/python3 -c 'import sqlite3,sys,hashlib
c = sqlite3.connect(sys.argv[1]); h = hashlib.sha256()
for row in c.execute("SELECT * FROM " + sys.argv[2] + " ORDER BY 1"): h.update(repr(row).encode())
print(h.hexdigest())' "$1" $t)"
	done
}
run() { "$AGGREGATOR" --store-dir "$1" "${@:2}" >"$WORK/out" 2>&1; } # store, options
refuses() { # reason, store, options: exit 3
	local reason=$1 code
	shift
	run "$@"
	code=$?
	grep -qF "$reason" "$WORK/out" && [ $code = 3 ] || { echo "# exit $code: $(cut -c1-200 "$WORK/out")"; return 1; }
}
trap finish EXIT

STACK_AGGREGATOR_FLAGS="--incident-silence 2s --incident-gap 1s"
ok "an aggregator and a sysomd" stack_start "$WORK/stack"
S=$WORK/stack/store
for job in a b c; do
	ok "job $job has a fault" "$CLIENT" fault "$STACK_NNG" $job 8 5
done
all_closed() { [ "$(api 'incidents?state=open' '.incidents | length')" = 0 ]; }
ok "their incidents are closed" stack_wait 40 all_closed
mapfile -t IDS < <(ids)
ok "there are three" is ${#IDS[@]} 3
incidents "${IDS[@]}" >"$WORK/before"

# under load: windows of other jobs arrive all the time
(for ((seed = 10; ; seed++)); do "$CLIENT" flood "$STACK_NNG" 200 50 1 $seed "$WORK/acked"; done) >/dev/null 2>&1 &
LOAD=$!
windows_are() { [ "$(api status .windows)" -ge "$1" ]; }
ok "windows arrive" stack_wait 20 windows_are 100
for i in 1 2 3; do
	ok "backup $i under load" run "$S" --backup "$F.$i"
	ok "windows still arrive" stack_wait 20 windows_are $(($(api status .windows) + 1))
done
kill $LOAD 2>/dev/null
wait $LOAD 2>/dev/null
ok "each is whole, and one moment's state" python3 - "$F" <<'PY'
import sqlite3, sys
for i in "123":
    c = sqlite3.connect(f"{sys.argv[1]}.{i}")
    assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    counted = [c.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("windows", "bodies", "incidents")]
    assert counted == [*c.execute("SELECT windows, bodies, incidents FROM totals").fetchone()], counted
PY
ok "a backup is one file, for its owner" is "$(cd "$WORK" && stat -c '%n %a' backup.* | xargs)" \
	"backup.1 600 backup.2 600 backup.3 600"

# at rest
ok "all incidents are closed" stack_wait 40 all_closed
dump() { python3 -c 'import sqlite3,sys; print(*sqlite3.connect(sys.argv[1]).iterdump(), sep="\n")' "$1"; }
python3 -c 'import sqlite3,sys
c = sqlite3.connect(sys.argv[1]); c.execute("CREATE TABLE mark AS SELECT 42 AS x"); c.commit()' "$S/baselines.db"
dump "$S/baselines.db" >"$WORK/baselines"
ok "a backup at rest" run "$S" --backup "$F"
mapfile -t ALL < <(ids)
incidents "${ALL[@]}" >"$WORK/incidents"
ok "there are incidents" test "$(wc -c <"$WORK/incidents")" -gt 10000
stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"
sums "$S/store.db" >"$WORK/sums"
mv "$S" "$WORK/lost"
ok "restored" run "$S" --restore "$F"
ok "every row is the same" diff "$WORK/sums" <(sums "$S/store.db")
ok "so are the baselines" diff "$WORK/baselines" <(dump "$S/baselines.db")
ok "an aggregator takes the restored store" stack_aggregator
incidents "${ALL[@]}" >"$WORK/restored"
ok "incidents are equal byte for byte" cmp "$WORK/incidents" "$WORK/restored"
ok "and takes windows" "$CLIENT" fault "$STACK_NNG" d 8 5
there_is_d() { [ "$(api 'incidents?job=d' '.incidents | length')" -ge 1 ]; }
ok "and forms an incident of them" stack_wait 20 there_is_d

# what was saved while windows arrived, in an empty store
ok "the aggregator ends" stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"
mv "$S" "$WORK/first"
ok "the backup under load is restored" run "$S" --restore "$F.3"
ok "an aggregator takes it" stack_aggregator
incidents "${IDS[@]}" >"$WORK/restored"
ok "the incidents that there were are equal byte for byte" cmp "$WORK/before" "$WORK/restored"
ok "and what came later is not there" is "$(api 'incidents?job=d' '.incidents | length')" 0
ok "and takes windows" "$CLIENT" fault "$STACK_NNG" e 8 5

# refused
sum=$(sha256sum <"$F")
ok "a backup overwrites nothing" refuses "the file exists" "$S" --backup "$F"
ok "the file is the same" is "$(sha256sum <"$F")" "$sum"
ok "no restore over a store" refuses "uses the directory" "$S" --restore "$F"
ok "nor over one that nobody uses" refuses "has a store" "$WORK/lost" --restore "$F"
ok "no backup of nothing" refuses "unable to open" "$WORK/none" --backup "$F.none"
ok "no backup without a file's name" is "$("$AGGREGATOR" --backup 2>/dev/null; echo $?)" 2
head -c 100000 "$F" >"$F.cut"
ok "half a backup is refused" refuses "damaged" "$WORK/other" --restore "$F.cut"
echo "not a backup" >"$F.text"
ok "a text is refused" refuses "damaged" "$WORK/other" --restore "$F.text"
cp "$F" "$F.newer"
python3 -c 'import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version=99")' "$F.newer"
ok "a newer version's is refused" refuses "newer than this program's" "$WORK/other" --restore "$F.newer"
ok "nothing is left of what was refused" is "$(ls "$WORK/other" 2>/dev/null | grep -v lock)" ""
mkdir "$WORK/newer"
cp "$F.newer" "$WORK/newer/store.db"
ok "an aggregator refuses a newer version's store" refuses "newer than this program's" "$WORK/newer" \
	--nng-listen "ipc://$WORK/x" --http-listen 127.0.0.1:0
ok "and leaves it as it is" cmp "$F.newer" "$WORK/newer/store.db"
mkdir "$WORK/damaged"
cp "$F.text" "$WORK/damaged/store.db"
ok "it says that a store is damaged" refuses "it is damaged" "$WORK/damaged" \
	--nng-listen "ipc://$WORK/x" --http-listen 127.0.0.1:0

# a signal in the middle of a large one
mkdir "$WORK/large"
cp "$F" "$WORK/large/store.db"
python3 -c 'import sqlite3,sys
with sqlite3.connect(sys.argv[1]) as db: db.executescript("DROP TABLE files; CREATE TABLE ballast(b); WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<400) INSERT INTO ballast SELECT zeroblob(1000000) FROM n")' "$WORK/large/store.db"
ended_by() { # signal: a backup that it meets half way
	local pid
	"$AGGREGATOR" --store-dir "$WORK/large" --backup "$WORK/half" >"$WORK/out" 2>&1 &
	pid=$!
	until compgen -G "$WORK/half.*.tmp" >/dev/null; do kill -0 $pid || return; done
	kill -"$1" $pid
	wait $pid
	[ $? = 3 ] && grep -q "a signal ended it" "$WORK/out" && is "$(compgen -G "$WORK/half*")" ""
}
for s in TERM INT HUP; do
	ok "a backup that SIG$s ends says so, and leaves nothing" ended_by $s
done
ok "without a signal it is made" run "$WORK/large" --backup "$WORK/half"
rm -r "$WORK/large" "$WORK/half"

# of the directory's owner
mkdir "$WORK/theirs"
if chown 65534:65534 "$WORK/theirs" 2>/dev/null; then
	ok "a restore by root" run "$WORK/theirs" --restore "$F"
	ok "is the directory's owner's" is "$(stat -c %u:%g "$WORK"/theirs/{store.db,baselines.db,lock} | sort -u)" 65534:65534
else
	skip "a restore by root" "needs root"
fi

# a full volume
if python3 tests/needs.py mounts >/dev/null; then
	ok "a backup to a full volume says so, and leaves nothing" unshare -m bash -c '
		mkdir "$1" && mount -t tmpfs -o size=64k none "$1" || exit 1
		"$2" --store-dir "$3" --backup "$1/b" >"$1.out" 2>&1
		[ $? = 3 ] && grep -q "no space left" "$1.out" && [ -z "$(ls "$1")" ]' - "$WORK/small" "$AGGREGATOR" "$S"
	ok "a restore that had no room is repeated with more" unshare -m bash -c '
		mkdir "$1" && mount -t tmpfs -o size=$(($(stat -c %s "$3") / 2)) none "$1" || exit 1
		"$2" --store-dir "$1/store" --restore "$3" >"$1.out" 2>&1
		[ $? = 3 ] && grep -q "no space left" "$1.out" && mount -o remount,size=1g "$1" &&
			"$2" --store-dir "$1/store" --restore "$3"' - "$WORK/tight" "$AGGREGATOR" "$F"
else
	skip "a backup to a full volume" "needs mounts"
	skip "a restore that had no room" "needs mounts"
fi
