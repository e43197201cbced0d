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
if version >= 5:
    db.create_function("job_owner", 1, lambda job: int(job.split("@")[1]) if "@" in job else -1)
    db.executescript("""
ALTER TABLE windows ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;
ALTER TABLE windows ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;
ALTER TABLE incidents ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;
ALTER TABLE merged ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;
UPDATE windows SET owner=job_owner(job),stored=seq IN (SELECT seq FROM bodies);
UPDATE incidents SET owner=job_owner(job);
UPDATE merged SET owner=COALESCE((SELECT owner FROM incidents WHERE id=successor),-1);
CREATE INDEX windows_stored ON windows(job,seq) WHERE stored=1;
CREATE INDEX windows_bare ON windows(received_ns) WHERE stored=0;
CREATE INDEX incidents_owner ON incidents(owner,begin_ns,id);
CREATE INDEX incidents_owner_open ON incidents(owner,open,begin_ns,id);
CREATE INDEX incidents_owner_updated ON incidents(owner,updated_ns);
CREATE INDEX incidents_owner_id ON incidents(owner,id);
CREATE INDEX merged_owner_at ON merged(owner,at_ns);
CREATE INDEX merged_owner_id ON merged(owner,id);
CREATE TABLE jobs(job TEXT PRIMARY KEY, owner INTEGER NOT NULL, bytes INTEGER NOT NULL, closed INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE owners(owner INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
INSERT INTO jobs SELECT job,owner,SUM(bytes),SUM(closed) FROM (SELECT job,owner,bytes,0 AS closed FROM windows WHERE stored=1 UNION ALL  SELECT job,owner,0,1 FROM incidents WHERE open=0) GROUP BY job;
INSERT INTO owners SELECT owner,SUM(bytes) FROM jobs GROUP BY owner;
CREATE INDEX jobs_owner ON jobs(owner,bytes);
CREATE INDEX jobs_bytes ON jobs(bytes);
CREATE INDEX jobs_closed ON jobs(closed);
CREATE INDEX owners_bytes ON owners(bytes);
CREATE TRIGGER windows_paid AFTER INSERT ON windows WHEN NEW.stored=1 BEGIN INSERT INTO jobs VALUES(NEW.job,NEW.owner,NEW.bytes,0) ON CONFLICT(job) DO UPDATE SET bytes=bytes+excluded.bytes; END;
CREATE TRIGGER bodies_gone AFTER DELETE ON bodies BEGIN UPDATE windows SET stored=0 WHERE seq=OLD.seq; END;
CREATE TRIGGER windows_bared AFTER UPDATE OF stored ON windows WHEN OLD.stored=1 AND NEW.stored=0 BEGIN UPDATE jobs SET bytes=bytes-OLD.bytes WHERE job=OLD.job; END;
CREATE TRIGGER incidents_came AFTER INSERT ON incidents WHEN NEW.open=0 BEGIN INSERT INTO jobs VALUES(NEW.job,NEW.owner,0,1) ON CONFLICT(job) DO UPDATE SET closed=closed+1; END;
CREATE TRIGGER incidents_closed AFTER UPDATE OF open ON incidents WHEN OLD.open=1 AND NEW.open=0 BEGIN INSERT INTO jobs VALUES(NEW.job,NEW.owner,0,1) ON CONFLICT(job) DO UPDATE SET closed=closed+1; END;
CREATE TRIGGER incidents_reopened AFTER UPDATE OF open ON incidents WHEN OLD.open=0 AND NEW.open=1 BEGIN UPDATE jobs SET closed=closed-1 WHERE job=OLD.job; END;
CREATE TRIGGER incidents_gone AFTER DELETE ON incidents WHEN OLD.open=0 BEGIN UPDATE jobs SET closed=closed-1 WHERE job=OLD.job; END;
CREATE TRIGGER jobs_in AFTER INSERT ON jobs BEGIN INSERT INTO owners VALUES(NEW.owner,NEW.bytes) ON CONFLICT(owner) DO UPDATE SET bytes=bytes+excluded.bytes; END;
CREATE TRIGGER jobs_turn AFTER UPDATE ON jobs BEGIN UPDATE owners SET bytes=bytes+NEW.bytes-OLD.bytes WHERE owner=NEW.owner; DELETE FROM jobs WHERE job=NEW.job AND bytes=0 AND closed=0; DELETE FROM owners WHERE owner=NEW.owner AND bytes=0 AND NOT EXISTS(SELECT 1 FROM jobs WHERE owner=NEW.owner); END;
PRAGMA user_version=5;
""")
db.commit()
