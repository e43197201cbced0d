#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a store as an earlier schema has it, with one incident and its window. usage: store_old.py VERSION FILE"""
import sqlite3
import sys

version = int(sys.argv[1])
db = sqlite3.connect(sys.argv[2])
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
INSERT INTO incidents VALUES('aaaaaaaa','job',0,1,2,3,'{"id":"aaaaaaaa","symptom":"hiccup"}');
INSERT INTO windows VALUES(1,zeroblob(16),10,'job','node',0,0,0,1,2,0,0,1,1,0,'aaaaaaaa');
INSERT INTO windows VALUES(2,x'01000000000000000000000000000000',11,'job','node',0,0,0,1,2,0,0,1,1,0,NULL);
INSERT INTO bodies VALUES(1,x'00');
INSERT INTO ranks VALUES('job',0,'node',1,'',11);
PRAGMA application_id=1398362959;
PRAGMA user_version=1;
""")
if version >= 2:
    db.executescript("""
ALTER TABLE incidents ADD COLUMN updated_ns INTEGER NOT NULL DEFAULT 0;
CREATE INDEX incidents_updated ON incidents(updated_ns);
CREATE TABLE findings(incident TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE merged(id TEXT PRIMARY KEY, successor TEXT NOT NULL, at_ns INTEGER NOT NULL)
 WITHOUT ROWID;
CREATE INDEX merged_at ON merged(at_ns);
CREATE INDEX merged_successor ON merged(successor);
INSERT INTO findings VALUES('aaaaaaaa','[{"teller":"2","told_begin_unix_ns":"7"}]'),('cccccccc','[2]');
PRAGMA user_version=2;
""")
if version >= 3:
    db.executescript("""
DROP TABLE ranks;
DROP INDEX incidents_begin;
CREATE INDEX incidents_begin ON incidents(begin_ns,id);
CREATE INDEX incidents_job ON incidents(job,begin_ns,id);
CREATE INDEX incidents_open ON incidents(open,begin_ns,id);
CREATE INDEX incidents_job_open ON incidents(job,open,begin_ns,id);
CREATE INDEX incidents_arrival ON incidents(open,arrival_ns);
DROP INDEX windows_incident;
CREATE INDEX windows_incident ON windows(incident,begin_ns) WHERE incident IS NOT NULL;
CREATE TABLE totals(id INTEGER PRIMARY KEY, windows INTEGER NOT NULL,
 bodies INTEGER NOT NULL, incidents INTEGER NOT NULL, open INTEGER NOT NULL);
INSERT INTO totals SELECT 1,(SELECT COUNT(*) FROM windows),(SELECT COUNT(*) FROM bodies),
 (SELECT COUNT(*) FROM incidents),(SELECT COUNT(*) FROM incidents WHERE open=1);
CREATE TRIGGER windows_in AFTER INSERT ON windows BEGIN
 UPDATE totals SET windows=windows+1 WHERE id=1; END;
CREATE TRIGGER windows_out AFTER DELETE ON windows BEGIN
 UPDATE totals SET windows=windows-1 WHERE id=1; END;
CREATE TRIGGER bodies_in AFTER INSERT ON bodies BEGIN
 UPDATE totals SET bodies=bodies+1 WHERE id=1; END;
CREATE TRIGGER bodies_out AFTER DELETE ON bodies BEGIN
 UPDATE totals SET bodies=bodies-1 WHERE id=1; END;
CREATE TRIGGER incidents_in AFTER INSERT ON incidents BEGIN
 UPDATE totals SET incidents=incidents+1,open=open+NEW.open WHERE id=1; END;
CREATE TRIGGER incidents_turn AFTER UPDATE OF open ON incidents WHEN OLD.open<>NEW.open BEGIN
 UPDATE totals SET open=open+NEW.open-OLD.open WHERE id=1; END;
CREATE TRIGGER incidents_out AFTER DELETE ON incidents BEGIN
 UPDATE totals SET incidents=incidents-1,open=open-OLD.open WHERE id=1;
 DELETE FROM findings WHERE incident=OLD.id; END;
PRAGMA user_version=3;
""")
if version >= 4:
    db.executescript("""
UPDATE incidents SET body=replace(body,'hiccup','transient');
INSERT INTO incidents VALUES('dddddddd','mine@1000',0,1,2,3,'{"id":"dddddddd"}',4);
INSERT INTO merged VALUES('eeeeeeee','dddddddd',5);
INSERT INTO windows VALUES(3,x'03000000000000000000000000000000',12,'mine@1000','node',0,0,0,1,2,0,0,1,1,0,'dddddddd');
INSERT INTO bodies VALUES(3,x'03');
PRAGMA user_version=4;
""")
db.commit()
