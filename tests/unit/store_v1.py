#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a store as schema version 1 has it, with one incident."""
import sqlite3
import sys

db = sqlite3.connect(sys.argv[1])
db.executescript("""
CREATE TABLE windows(seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,
 received_ns INTEGER NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL, rank INTEGER NOT NULL,
 reason INTEGER NOT NULL, sequence INTEGER NOT NULL, begin_ns INTEGER NOT NULL,
 end_ns INTEGER NOT NULL, steps INTEGER NOT NULL, records INTEGER NOT NULL,
 bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, summary_only INTEGER NOT NULL,
 incident TEXT);
CREATE INDEX windows_incident ON windows(incident) WHERE incident IS NOT NULL;
CREATE INDEX windows_received ON windows(received_ns);
CREATE TABLE bodies(seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE incidents(id TEXT PRIMARY KEY, job TEXT NOT NULL, open INTEGER NOT NULL,
 begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, arrival_ns INTEGER NOT NULL,
 body TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX incidents_begin ON incidents(begin_ns);
CREATE TABLE ranks(job TEXT NOT NULL, rank INTEGER NOT NULL, node TEXT NOT NULL,
 world_size INTEGER NOT NULL, program TEXT NOT NULL, seen_ns INTEGER NOT NULL,
 PRIMARY KEY(job,rank,node)) WITHOUT ROWID;
INSERT INTO incidents VALUES('aaaaaaaa','job',0,1,2,3,'{"id":"aaaaaaaa"}');
PRAGMA application_id=1398362959;
PRAGMA user_version=1;
""")
db.commit()
