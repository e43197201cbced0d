#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what `protoc --decode=perfetto.protos.Trace` printed (standard input): slices balance and
nest on described tracks, names are interned. Prints a one-line summary as JSON."""
import json
import re
import sys


def parse(lines):
    """protoc's text form -> list of (key, value or list)."""
    out = []
    for line in lines:
        line = line.strip()
        if line == "}":
            return out
        if line.endswith("{"):
            out.append((line[:-1].strip(), parse(lines)))
        else:
            key, value = line.split(": ", 1)
            out.append((key, value))
    return out


def get(message, key):
    return next((v for k, v in message if k == key), None)


def slices(packets):
    """(process, track, name, begin, end) of each slice of tracks in processes or groups; process: its track's id."""
    tracks, names, open_ones, done = {}, {}, {}, []
    for p in packets:
        track, event = get(p, "track_descriptor"), get(p, "track_event")
        if track:
            tracks[get(track, "uuid")] = (get(track, "parent_uuid"), (get(track, "name") or "").strip('"'))
        for key, v in get(p, "interned_data") or []:
            if key == "event_names":
                names[get(v, "iid")] = get(v, "name").strip('"')
        if not event:
            continue
        at, of = int(get(p, "timestamp")), open_ones.setdefault(get(event, "track_uuid"), [])
        if get(event, "type") == "TYPE_SLICE_BEGIN":
            of.append((names.get(get(event, "name_iid")) or (get(event, "name") or "").strip('"'), at))
        else:
            done.append((*tracks[get(event, "track_uuid")], *of.pop(), at))
    return done


def main():
    packets = [v for k, v in parse(iter(sys.stdin)) if k == "packet"]
    tracks, events, names, summary = {}, [], {}, {}
    for at, p in enumerate(packets):
        assert get(p, "trusted_packet_sequence_id") == "1"
        t = get(p, "track_descriptor")
        if t:
            uuid = get(t, "uuid")
            assert uuid not in tracks and int(uuid)
            parent = get(t, "parent_uuid")
            assert parent is None or parent in tracks
            process, thread = get(t, "process"), get(t, "thread")
            name = get(process or [], "process_name") or get(thread or [], "thread_name") \
                or get(t, "name")
            tracks[uuid] = {"name": name.strip('"'), "process": parent or uuid, "depth": 0,
                            "max": 0, "slices": 0}
        for key, v in get(p, "interned_data") or []:
            if key == "event_names":
                assert get(v, "iid") not in names
                names[get(v, "iid")] = get(v, "name")
        e = get(p, "track_event")
        if e:
            events.append((int(get(p, "timestamp")), at, e))
            assert get(e, "name_iid") is None or get(e, "name_iid") in names
    assert get(packets[0], "sequence_flags") == "1"
    assert get(get(packets[0], "clock_snapshot"), "primary_trace_clock") == "BUILTIN_CLOCK_REALTIME"
    for _, _, e in sorted(events, key=lambda x: (x[0], x[1])):
        t = tracks[get(e, "track_uuid")]
        if get(e, "type") == "TYPE_SLICE_BEGIN":
            t["depth"] += 1
            t["slices"] += 1
            t["max"] = max(t["max"], t["depth"])
        else:
            assert get(e, "type") == "TYPE_SLICE_END"
            t["depth"] -= 1
            assert t["depth"] >= 0
    assert all(t["depth"] == 0 for t in tracks.values())
    for t in tracks.values():
        if re.match("GPU", t["name"]):
            assert t["max"] == 1, "kernels of a stream must not nest"
        summary[t["name"]] = summary.get(t["name"], 0) + t["slices"]
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
