/* SPDX-License-Identifier: Apache-2.0
 * One table has every statement of the store, so that a test can check each one's query plan. No
 * statement may read a whole table, however large the store is.
 * Triggers keep `totals`. A counter in memory would have to be counted after each start, and undone
 * after each failed transaction. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "aggregator/store/store_private.h"
#include "base/daemon/log.h"

#define APPLICATION_ID 0x5359534f /* "SYSO" */

/* Newest first, after the place (?3,?4). */
#define LIST(where)                                                                                \
	"SELECT begin_ns,id,body FROM incidents WHERE " where "(begin_ns,id)<(?3,?4) "             \
	"ORDER BY begin_ns DESC,id DESC LIMIT ?5"
/* Rows of windows whose body is gone, the oldest first. */
#define BARE(where)                                                                                \
	"DELETE FROM windows WHERE seq IN (SELECT seq FROM windows INDEXED BY windows_bare WHERE " \
	"stored=0 AND received_ns" where " ORDER BY received_ns LIMIT "
/* Matches jobs of that name of all users, and all their runs. */
#define OF_NAME	 "job>=?6 AND job<?7 AND job_matches(job,?1)"
#define RESTORED "SELECT id,job,open,begin_ns,end_ns,arrival_ns FROM incidents WHERE "

const char *const store_sql[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_PUT_WINDOW] =
	"INSERT OR IGNORE INTO windows(id,received_ns,job,node,rank,reason,sequence,begin_ns,"
	"end_ns,steps,records,bytes,raw_bytes,summary_only,owner,stored) "
	"VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,1)",
    [ST_PUT_BODY] = "INSERT INTO bodies(seq,body) VALUES(?1,?2)",
    [ST_SET_INCIDENT] = "UPDATE windows SET incident=?2 WHERE id=?1",
    [ST_MOVE_WINDOWS] = "UPDATE windows SET incident=?1 WHERE incident=?2",
    [ST_DROP_INCIDENT] = "DELETE FROM incidents WHERE id=?1",
    [ST_PUT_MERGED] =
	"INSERT OR REPLACE INTO merged(id,successor,at_ns,owner) VALUES(?1,?2,?3,COALESCE("
	"(SELECT owner FROM incidents WHERE id=?1),(SELECT owner FROM incidents WHERE id=?2),-1))",
    [ST_MOVE_MERGED] = "UPDATE merged SET successor=?1 WHERE successor=?2",
    [ST_SUCCESSOR] = "SELECT successor FROM merged WHERE id=?1",
    [ST_PUT_FINDINGS] = "INSERT OR REPLACE INTO findings(incident,body) VALUES(?1,?2)",
    [ST_DROP_FINDINGS] = "DELETE FROM findings WHERE incident=?1",
    [ST_FINDINGS] = "SELECT body FROM findings WHERE incident=?1",
    [ST_PUT_INCIDENT] =
	"INSERT INTO incidents(id,job,open,begin_ns,end_ns,arrival_ns,body,updated_ns,owner,bytes) "
	"VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) ON CONFLICT(id) DO UPDATE SET "
	"open=?3,begin_ns=?4,end_ns=?5,arrival_ns=?6,body=?7,updated_ns=?8,bytes=?10",
    /* open ones first: an incident that is not restored is never closed */
    [ST_RESTORE_OPEN] = RESTORED "open=1 AND arrival_ns>=?1 ORDER BY arrival_ns DESC LIMIT ?2",
    [ST_RESTORE_CLOSED] = RESTORED "open=0 AND arrival_ns>=?1 ORDER BY arrival_ns DESC LIMIT ?2",
    [ST_EACH_BODY] = "SELECT b.body FROM windows w JOIN bodies b ON b.seq=w.seq "
		     "WHERE w.incident=?1 ORDER BY w.seq",
    [ST_EXPIRE_WINDOWS] = BARE("<?1") "?2)",
    [ST_EXPIRE_MERGED] = "DELETE FROM merged WHERE id IN (SELECT id FROM merged WHERE "
			 "at_ns<?1 ORDER BY at_ns LIMIT ?2)",
    [ST_OLDEST_WINDOWS] = BARE(">=0") "?1)",
    [ST_OLDEST_INCIDENTS] = "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE "
			    "open=0 ORDER BY arrival_ns LIMIT ?1)",
    [ST_JOB_TAKES] = "SELECT bytes,closed FROM jobs WHERE job=?1",
    [ST_JOB_OLDEST_BODY] = "SELECT seq,received_ns FROM windows INDEXED BY windows_stored "
			   "WHERE job=?1 AND stored=1 ORDER BY seq LIMIT 1",
    [ST_JOB_OLDEST_INCIDENT] = "SELECT id,arrival_ns FROM incidents INDEXED BY "
			       "incidents_job_open WHERE job=?1 AND open=0 "
			       "ORDER BY begin_ns,id LIMIT 1",
    [ST_DROP_BODY] = "DELETE FROM bodies WHERE seq=?1",
    [ST_JOB_AFTER] = "SELECT job FROM jobs WHERE job>?1 ORDER BY job LIMIT 1",
    [ST_LARGEST_JOB] = "SELECT job,bytes FROM jobs WHERE bytes>=0 ORDER BY bytes DESC LIMIT 1",
    /* so neither many windows nor many jobs of one user push out those of another */
    [ST_LARGEST_JOB_OF_OWNER] =
	"SELECT job FROM jobs WHERE owner=(SELECT owner FROM owners WHERE bytes>=0 ORDER BY "
	"bytes DESC LIMIT 1) ORDER BY bytes DESC LIMIT 1",
    [ST_TOTALS] = "SELECT windows,bodies,incidents,open FROM totals WHERE id=1",
    [ST_PAGES] = "SELECT page_count,freelist_count,page_size FROM pragma_page_count,"
		 "pragma_freelist_count,pragma_page_size",
    [ST_LIST] = LIST(""),
    [ST_LIST_JOB] = LIST("job=?1 AND "),
    [ST_LIST_STATE] = LIST("open=?2 AND "),
    [ST_LIST_JOB_STATE] = LIST("job=?1 AND open=?2 AND "),
    [ST_LIST_NAME] = LIST(OF_NAME " AND "),
    [ST_LIST_NAME_STATE] = LIST(OF_NAME " AND open=?2 AND "),
    [ST_LIST_OWNER] = LIST("owner=?1 AND "),
    [ST_LIST_OWNER_STATE] = LIST("owner=?1 AND open=?2 AND "),
    [ST_NEXT_JOB] = "SELECT job FROM incidents WHERE job>=?1 AND job<?2 ORDER BY job LIMIT 1",
    [ST_INCIDENT_ID] = "SELECT id FROM incidents WHERE id>=?1 AND id<?2 UNION ALL "
		       "SELECT id FROM merged WHERE id>=?1 AND id<?2 LIMIT 2",
    [ST_INCIDENT_ID_OWNER] =
	"SELECT id FROM incidents WHERE owner=?3 AND id>=?1 AND id<?2 UNION ALL "
	"SELECT id FROM merged WHERE owner=?3 AND id>=?1 AND id<?2 LIMIT 2",
    [ST_INCIDENT] = "SELECT body FROM incidents WHERE id=?1",
    [ST_INCIDENTS_BEFORE] = "SELECT end_ns,body FROM incidents WHERE job=?1 AND begin_ns<=?2 "
			    "ORDER BY begin_ns DESC,id DESC LIMIT ?3",
    [ST_INCIDENT_WINDOWS] =
	"SELECT id,rank,node,reason,begin_ns,end_ns,steps,records,bytes,summary_only "
	"FROM windows WHERE incident=?1 ORDER BY begin_ns,seq LIMIT ?2",
    [ST_FEED] = "SELECT updated_ns,body,NULL,id FROM incidents WHERE updated_ns>?1 UNION ALL "
		"SELECT at_ns,NULL,successor,id FROM merged WHERE at_ns>?1 ORDER BY 1 LIMIT ?2",
    [ST_FEED_OWNER] =
	"SELECT updated_ns,body,NULL,id FROM incidents WHERE owner=?3 AND updated_ns>?1 UNION ALL "
	"SELECT at_ns,NULL,successor,id FROM merged WHERE owner=?3 AND at_ns>?1 ORDER BY 1 LIMIT "
	"?2",
    [ST_BODY] = "SELECT b.body FROM windows w JOIN bodies b ON b.seq=w.seq WHERE w.id=?1",
    [ST_WINDOW_JOB] = "SELECT job FROM windows WHERE id=?1",
};

/* One entry per version: what it adds to the one before. */
static const char *const schemas[STORE_SCHEMA_VERSION] = {
    "CREATE TABLE windows(seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,"
    " received_ns INTEGER NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL, rank INTEGER NOT NULL,"
    " reason INTEGER NOT NULL, sequence INTEGER NOT NULL, begin_ns INTEGER NOT NULL,"
    " end_ns INTEGER NOT NULL, steps INTEGER NOT NULL, records INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, summary_only INTEGER NOT NULL,"
    " incident TEXT);"
    "CREATE INDEX windows_incident ON windows(incident) WHERE incident IS NOT NULL;"
    "CREATE INDEX windows_received ON windows(received_ns);"
    "CREATE TABLE bodies(seq INTEGER PRIMARY KEY, body BLOB NOT NULL);"
    "CREATE TABLE incidents(id TEXT PRIMARY KEY, job TEXT NOT NULL, open INTEGER NOT NULL,"
    " begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, arrival_ns INTEGER NOT NULL,"
    " body TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX incidents_begin ON incidents(begin_ns);"
    "CREATE TABLE ranks(job TEXT NOT NULL, rank INTEGER NOT NULL, node TEXT NOT NULL,"
    " world_size INTEGER NOT NULL, program TEXT NOT NULL, seen_ns INTEGER NOT NULL,"
    " PRIMARY KEY(job,rank,node)) WITHOUT ROWID;",

    "ALTER TABLE incidents ADD COLUMN updated_ns INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX incidents_updated ON incidents(updated_ns);"
    "CREATE TABLE findings(incident TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE merged(id TEXT PRIMARY KEY, successor TEXT NOT NULL, at_ns INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX merged_at ON merged(at_ns);"
    "CREATE INDEX merged_successor ON merged(successor);",

    /* nothing read `ranks`, and it had no limit */
    "DROP TABLE ranks;"
    "DROP INDEX incidents_begin;"
    "CREATE INDEX incidents_begin ON incidents(begin_ns,id);"
    "CREATE INDEX incidents_job ON incidents(job,begin_ns,id);"
    "CREATE INDEX incidents_open ON incidents(open,begin_ns,id);"
    "CREATE INDEX incidents_job_open ON incidents(job,open,begin_ns,id);"
    "CREATE INDEX incidents_arrival ON incidents(open,arrival_ns);"
    "DROP INDEX windows_incident;"
    "CREATE INDEX windows_incident ON windows(incident,begin_ns) WHERE incident IS NOT NULL;"
    "DELETE FROM findings WHERE incident NOT IN (SELECT id FROM incidents);"
    "CREATE TABLE totals(id INTEGER PRIMARY KEY, windows INTEGER NOT NULL,"
    " bodies INTEGER NOT NULL, incidents INTEGER NOT NULL, open INTEGER NOT NULL);"
    "INSERT INTO totals SELECT 1,(SELECT COUNT(*) FROM windows),(SELECT COUNT(*) FROM bodies),"
    " (SELECT COUNT(*) FROM incidents),(SELECT COUNT(*) FROM incidents WHERE open=1);"
    "CREATE TRIGGER windows_in AFTER INSERT ON windows BEGIN"
    " UPDATE totals SET windows=windows+1 WHERE id=1; END;"
    "CREATE TRIGGER windows_out AFTER DELETE ON windows BEGIN"
    " UPDATE totals SET windows=windows-1 WHERE id=1; END;"
    "CREATE TRIGGER bodies_in AFTER INSERT ON bodies BEGIN"
    " UPDATE totals SET bodies=bodies+1 WHERE id=1; END;"
    "CREATE TRIGGER bodies_out AFTER DELETE ON bodies BEGIN"
    " UPDATE totals SET bodies=bodies-1 WHERE id=1; END;"
    "CREATE TRIGGER incidents_in AFTER INSERT ON incidents BEGIN"
    " UPDATE totals SET incidents=incidents+1,open=open+NEW.open WHERE id=1; END;"
    "CREATE TRIGGER incidents_turn AFTER UPDATE OF open ON incidents WHEN OLD.open<>NEW.open BEGIN"
    " UPDATE totals SET open=open+NEW.open-OLD.open WHERE id=1; END;"
    "CREATE TRIGGER incidents_out AFTER DELETE ON incidents BEGIN"
    " UPDATE totals SET incidents=incidents-1,open=open-OLD.open WHERE id=1;"
    " DELETE FROM findings WHERE incident=OLD.id; END;",

    /* words of the JSON that changed */
    "UPDATE incidents SET body=replace(body,'\"symptom\":\"hiccup\"','\"symptom\":\"transient\"')"
    " WHERE instr(body,'\"symptom\":\"hiccup\"');"
    "UPDATE findings SET body=replace(replace(body,'\"teller\":','\"reporter\":'),"
    "'\"told_begin_unix_ns\":','\"reported_begin_unix_ns\":');",

    /* the owner of each job (-1: the job names no user), and the bytes of each job and owner */
    "ALTER TABLE windows ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE windows ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE incidents ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE merged ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;"
    "UPDATE windows SET owner=job_owner(job),stored=seq IN (SELECT seq FROM bodies);"
    "UPDATE incidents SET owner=job_owner(job);"
    "UPDATE merged SET owner=COALESCE((SELECT owner FROM incidents WHERE id=successor),-1);"
    "CREATE INDEX windows_stored ON windows(job,seq) WHERE stored=1;"
    "CREATE INDEX windows_bare ON windows(received_ns) WHERE stored=0;"
    "CREATE INDEX incidents_owner ON incidents(owner,begin_ns,id);"
    "CREATE INDEX incidents_owner_open ON incidents(owner,open,begin_ns,id);"
    "CREATE INDEX incidents_owner_updated ON incidents(owner,updated_ns);"
    "CREATE INDEX incidents_owner_id ON incidents(owner,id);"
    "CREATE INDEX merged_owner_at ON merged(owner,at_ns);"
    "CREATE INDEX merged_owner_id ON merged(owner,id);"
    "CREATE TABLE jobs(job TEXT PRIMARY KEY, owner INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " closed INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE owners(owner INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);"
    "INSERT INTO jobs SELECT job,owner,SUM(bytes),SUM(closed) FROM"
    " (SELECT job,owner,bytes,0 AS closed FROM windows WHERE stored=1 UNION ALL"
    "  SELECT job,owner,0,1 FROM incidents WHERE open=0) GROUP BY job;"
    "INSERT INTO owners SELECT owner,SUM(bytes) FROM jobs GROUP BY owner;"
    "CREATE INDEX jobs_owner ON jobs(owner,bytes);"
    "CREATE INDEX jobs_bytes ON jobs(bytes);"
    "CREATE INDEX jobs_closed ON jobs(closed);"
    "CREATE INDEX owners_bytes ON owners(bytes);"
    "CREATE TRIGGER windows_paid AFTER INSERT ON windows WHEN NEW.stored=1 BEGIN"
    " INSERT INTO jobs VALUES(NEW.job,NEW.owner,NEW.bytes,0)"
    " ON CONFLICT(job) DO UPDATE SET bytes=bytes+excluded.bytes; END;"
    "CREATE TRIGGER bodies_gone AFTER DELETE ON bodies BEGIN"
    " UPDATE windows SET stored=0 WHERE seq=OLD.seq; END;"
    "CREATE TRIGGER windows_bared AFTER UPDATE OF stored ON windows"
    " WHEN OLD.stored=1 AND NEW.stored=0 BEGIN"
    " UPDATE jobs SET bytes=bytes-OLD.bytes WHERE job=OLD.job; END;"
    "CREATE TRIGGER incidents_came AFTER INSERT ON incidents WHEN NEW.open=0 BEGIN"
    " INSERT INTO jobs VALUES(NEW.job,NEW.owner,0,1)"
    " ON CONFLICT(job) DO UPDATE SET closed=closed+1; END;"
    "CREATE TRIGGER incidents_closed AFTER UPDATE OF open ON incidents"
    " WHEN OLD.open=1 AND NEW.open=0 BEGIN"
    " INSERT INTO jobs VALUES(NEW.job,NEW.owner,0,1)"
    " ON CONFLICT(job) DO UPDATE SET closed=closed+1; END;"
    "CREATE TRIGGER incidents_reopened AFTER UPDATE OF open ON incidents"
    " WHEN OLD.open=0 AND NEW.open=1 BEGIN"
    " UPDATE jobs SET closed=closed-1 WHERE job=OLD.job; END;"
    "CREATE TRIGGER incidents_gone AFTER DELETE ON incidents WHEN OLD.open=0 BEGIN"
    " UPDATE jobs SET closed=closed-1 WHERE job=OLD.job; END;"
    "CREATE TRIGGER jobs_in AFTER INSERT ON jobs BEGIN"
    " INSERT INTO owners VALUES(NEW.owner,NEW.bytes)"
    " ON CONFLICT(owner) DO UPDATE SET bytes=bytes+excluded.bytes; END;"
    "CREATE TRIGGER jobs_turn AFTER UPDATE ON jobs BEGIN"
    " UPDATE owners SET bytes=bytes+NEW.bytes-OLD.bytes WHERE owner=NEW.owner;"
    " DELETE FROM jobs WHERE job=NEW.job AND bytes=0 AND closed=0;"
    " DELETE FROM owners WHERE owner=NEW.owner AND bytes=0"
    " AND NOT EXISTS(SELECT 1 FROM jobs WHERE owner=NEW.owner); END;",

    /* a job's incidents count as bytes too; each job has its own quota, so the index that found
     * jobs beyond a common quota goes */
    "ALTER TABLE incidents ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
    "DROP TRIGGER incidents_came; DROP TRIGGER incidents_closed; DROP TRIGGER incidents_reopened;"
    "DROP TRIGGER incidents_gone; DROP INDEX jobs_closed;"
    "CREATE TRIGGER incidents_came AFTER INSERT ON incidents BEGIN"
    " INSERT INTO jobs VALUES(NEW.job,NEW.owner,NEW.bytes,1-NEW.open)"
    " ON CONFLICT(job) DO UPDATE SET bytes=bytes+excluded.bytes,closed=closed+excluded.closed; END;"
    "CREATE TRIGGER incidents_changed AFTER UPDATE OF open,bytes ON incidents"
    " WHEN OLD.open<>NEW.open OR OLD.bytes<>NEW.bytes BEGIN"
    " INSERT INTO jobs VALUES(NEW.job,NEW.owner,NEW.bytes-OLD.bytes,OLD.open-NEW.open)"
    " ON CONFLICT(job) DO UPDATE SET bytes=bytes+excluded.bytes,closed=closed+excluded.closed; END;"
    "CREATE TRIGGER incidents_gone AFTER DELETE ON incidents BEGIN"
    " UPDATE jobs SET bytes=bytes-OLD.bytes,closed=closed-(1-OLD.open) WHERE job=OLD.job; END;"
    "UPDATE incidents SET bytes=length(CAST(body AS BLOB));",
};

int store_check_version(struct store *s, int64_t newest)
{
	int64_t version = sql_number(&s->sql, "PRAGMA user_version"),
		id = sql_number(&s->sql, "PRAGMA application_id");
	struct sql *sql = &s->sql;
	int err = 0;

	if (version < 0 || id < 0) /* unreadable: the next statement logs why */
		err = sql_exec(sql, "SELECT COUNT(*) FROM sqlite_master", "version");
	if (err)
		return err;
	if (id == APPLICATION_ID && version >= 1 && version <= newest)
		return 0;
	if (id == APPLICATION_ID)
		log_error(sql->name,
			  "why=\"the store is of version %lld, newer than this program's %lld; use "
			  "the newer sysom-aggregator, or restore a backup\"",
			  (long long)version, (long long)newest);
	else
		log_error(sql->name, "why=\"not a store of sysom-aggregator\"");
	return -EPROTO;
}

/* The older version's programs cannot read the store any more, so a copy stays for them. */
static int keep_copy(struct store *s, int64_t version)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/store.db.v%lld", s->dir, (long long)version);
	err = store_copy(s, path);
	if (err)
		log_error(
		    "store",
		    "path=%s why=\"cannot keep a copy of the store before its upgrade: %s; the "
		    "store is unchanged\"",
		    path, strerror(-err));
	else
		log_info("store", "copy_of=%lld path=%s", (long long)version, path);
	return err;
}

int store_make_schema(struct store *s)
{
	char text[128];
	int64_t version = sql_number(&s->sql, "PRAGMA user_version");
	int err;

	if (version == STORE_SCHEMA_VERSION)
		return 0;
	err = version ? keep_copy(s, version) : 0;
	if (!err)
		err = sql_exec(&s->sql, "BEGIN IMMEDIATE", "begin");
	if (err)
		return err;
	for (int64_t v = version; v < STORE_SCHEMA_VERSION && !err; v++)
		err = sql_exec(&s->sql, schemas[v], "schema");
	snprintf(text, sizeof(text), "PRAGMA application_id=%d; PRAGMA user_version=%d",
		 APPLICATION_ID, STORE_SCHEMA_VERSION);
	if (!err)
		err = sql_exec(&s->sql, text, "version");
	if (!err)
		err = sql_exec(&s->sql, "COMMIT", "commit");
	if (err)
		sqlite3_exec(s->sql.db, "ROLLBACK", NULL, NULL, NULL);
	else if (version)
		log_info("store", "taken_over=%lld version=%d", (long long)version,
			 STORE_SCHEMA_VERSION);
	return err;
}
