-- Statements of the PostgreSQL store, each under its name. {s} is the schema. {up} is `up`, which gives the runs that a
-- log is made of: the session itself (depth 0), and of a fork the sessions before it, each up to its last record. What
-- belongs to a run is looked up for each (OFFSET 0): the planner takes them for many, and would read whole tables.

-- name: up
WITH RECURSIVE up (number, id, depth, head, last, base, base_seq) AS (
    SELECT number, id, 0, seq, seq, base, base_seq FROM {s}.sessions WHERE digest = %(digest)s AND id IS NOT NULL
    UNION ALL
    SELECT s.number, s.id, up.depth + 1, up.head, up.base_seq, s.base, s.base_seq
    FROM up JOIN {s}.sessions s ON s.number = up.base
)

-- name: session
SELECT number, id, family, epoch, owner, counter, seq, sent, base_seq, chain FROM {s}.sessions WHERE digest = %(digest)s

-- name: session_locked
SELECT number, id, family, epoch, owner, counter, seq, sent, base_seq, chain FROM {s}.sessions WHERE digest = %(digest)s
FOR UPDATE

-- name: still
SELECT extract(epoch FROM clock_timestamp() - leased)::float8 FROM {s}.sessions
WHERE digest = %(digest)s AND epoch = %(epoch)s AND owner = %(owner)s AND counter = %(counter)s AND id IS NOT NULL

-- name: incarnation
SELECT incarnation FROM {s}.store

-- name: begin_incarnation
UPDATE {s}.store SET incarnation = %(number)s WHERE incarnation < %(number)s

-- name: heads
SELECT number, id, family, seq, chain, epoch, summary, base, base_seq FROM {s}.sessions
WHERE id IS NOT NULL AND substr(id, 1, octet_length(%(prefix)s::bytea)) = %(prefix)s ORDER BY tick DESC, number DESC

-- name: bases
SELECT number, id, base, base_seq FROM {s}.sessions WHERE base IS NOT NULL OR number IN (SELECT base FROM {s}.sessions)

-- name: head
{up} SELECT s.id, s.family, s.seq, s.chain, s.epoch, s.summary, up.last
FROM up CROSS JOIN LATERAL (SELECT * FROM {s}.sessions s WHERE s.number = up.number OFFSET 0) s ORDER BY up.depth

-- name: page
{up} SELECT up.head, up.id, r.seq, r.epoch, r.kind, r.time_us, r.body, r.chain
FROM (
    SELECT up.depth, w.*, sum(octet_length(w.body)) OVER (ORDER BY w.seq) - octet_length(w.body) AS bytes
    FROM up CROSS JOIN LATERAL (
        SELECT * FROM {s}.records r
        WHERE r.session = up.number AND r.seq > %(after)s AND r.seq <= least(up.last, %(until)s)
        ORDER BY r.seq LIMIT 1000
    ) w
    ORDER BY w.seq LIMIT 1000
) r RIGHT JOIN up ON up.depth = r.depth
WHERE r.bytes < %(bytes)s OR r.bytes IS NULL ORDER BY r.seq

-- name: records_at
{up} SELECT up.head, up.id, r.seq, r.epoch, r.kind, r.time_us, r.body, r.chain
FROM up LEFT JOIN LATERAL (
    SELECT * FROM {s}.records r WHERE r.session = up.number AND r.seq = ANY (%(seqs)s) AND r.seq <= up.last OFFSET 0
) r ON true

-- name: points
{up} SELECT up.depth, p.seq, p.parent, p.flags, p.name, p.time_us
FROM up LEFT JOIN LATERAL (
    SELECT * FROM {s}.points p WHERE p.session = up.number AND p.seq <= up.last OFFSET 0
) p ON true ORDER BY up.depth DESC, p.seq

-- name: keyframes
{up} SELECT up.depth, k.seq, k.record
FROM up LEFT JOIN LATERAL (
    SELECT * FROM {s}.keyframes k
    WHERE k.session = up.number AND k.seq <= up.last AND (up.depth = 0 OR k.record <= up.last) OFFSET 0
) k ON true ORDER BY up.depth DESC, k.seq

-- name: marks
{up} SELECT up.depth, m.mark, m.seq FROM up LEFT JOIN LATERAL (
    SELECT * FROM {s}.marks m WHERE m.session = up.number AND m.seq <= up.last OFFSET 0
) m ON true

-- name: marked
{up} SELECT up.depth, m.seq
FROM up LEFT JOIN LATERAL (
    SELECT * FROM {s}.marks m WHERE m.session = up.number AND m.mark = %(mark)s AND m.seq <= up.last OFFSET 0
) m ON true ORDER BY m.seq

-- name: inbox
SELECT i.number, i.content FROM {s}.sessions s LEFT JOIN {s}.inbox i ON i.session = s.number AND i.number > %(after)s
WHERE s.digest = %(digest)s AND s.id IS NOT NULL ORDER BY i.number

-- name: chunks
SELECT c.digest, c.content FROM {s}.sessions s
LEFT JOIN {s}.chunks c ON c.family = s.family AND c.digest = ANY (%(digests)s)
WHERE s.digest = %(digest)s AND s.id IS NOT NULL

-- name: chunk_sizes
SELECT c.digest, octet_length(c.content) FROM {s}.sessions s LEFT JOIN {s}.chunks c ON c.family = s.family
WHERE s.digest = %(digest)s AND s.id IS NOT NULL

-- name: envelope
SELECT e.content FROM {s}.sessions s LEFT JOIN {s}.envelopes e ON e.family = s.family
WHERE s.digest = %(digest)s AND s.id IS NOT NULL

-- name: own_envelope
SELECT content FROM {s}.envelopes WHERE family = ''

-- name: chain_at
SELECT chain FROM {s}.records WHERE session = %(number)s AND seq = %(seq)s

-- Who may write, and at which end of the log: `head` has a row for each of those asked for, of `place` 1, 2 …
-- The numbers of several rows come in one list, row by row: fewer lists cost less to send than a few subscripts here.
-- What is one row comes as plain values: that takes the server half the time of lists with one row in them.

-- name: append
WITH head AS (
    UPDATE {s}.sessions s SET seq = %(until)s, tick = nextval('{s}.ticks'),
        chain = CASE %(chain)s::bytea WHEN '' THEN s.chain ELSE %(chain)s END,
        summary = CASE %(summary)s::bytea WHEN '' THEN s.summary ELSE %(summary)s END
    WHERE s.digest = %(digest)s AND s.id IS NOT NULL AND s.seq = %(head)s
        AND (%(known)s::bytea = '' OR s.chain = %(known)s) AND s.epoch >> 32 <= %(first)s >> 32
        AND CASE %(epoch)s WHEN -1 THEN s.owner = '' ELSE s.epoch = %(epoch)s AND s.owner <> '' END
    RETURNING 1::int8 AS place, s.number, s.digest, s.family, s.epoch, s.sent, s.watched
)

-- name: appends
WITH head AS (
    UPDATE {s}.sessions s SET seq = (%(a_n)s::int8[])[4 * a.place - 1], tick = nextval('{s}.ticks'),
        chain = CASE a.chain WHEN '' THEN s.chain ELSE a.chain END,
        summary = CASE a.summary WHEN '' THEN s.summary ELSE a.summary END
    FROM unnest(%(a_digest)s::bytea[], %(a_known)s::bytea[], %(a_chain)s::bytea[], %(a_summary)s::bytea[])
        WITH ORDINALITY AS a (digest, known, chain, summary, place)
    WHERE s.digest = a.digest AND s.id IS NOT NULL AND s.seq = (%(a_n)s::int8[])[4 * a.place - 2]
        AND (a.known = '' OR s.chain = a.known) AND s.epoch >> 32 <= (%(a_n)s::int8[])[4 * a.place] >> 32
        AND CASE (%(a_n)s::int8[])[4 * a.place - 3] WHEN -1 THEN s.owner = ''
            ELSE s.epoch = (%(a_n)s::int8[])[4 * a.place - 3] AND s.owner <> '' END
    RETURNING a.place, s.number, s.digest, s.family, s.epoch, s.sent, s.watched
)

-- name: claim
WITH here AS (
    SELECT greatest(%(seen_epoch)s, incarnation << 32) + 1 AS epoch FROM {s}.store FOR SHARE
), head AS (
    UPDATE {s}.sessions s SET epoch = here.epoch, owner = %(owner)s, counter = 0, leased = clock_timestamp(),
        seq = CASE %(until)s WHEN -1 THEN s.seq ELSE %(until)s END,
        tick = CASE %(until)s WHEN -1 THEN s.tick ELSE nextval('{s}.ticks') END,
        chain = CASE %(chain)s::bytea WHEN '' THEN s.chain ELSE %(chain)s END,
        summary = CASE %(summary)s::bytea WHEN '' THEN s.summary ELSE %(summary)s END
    FROM here
    WHERE s.digest = %(digest)s AND s.id IS NOT NULL AND s.epoch = %(seen_epoch)s AND s.owner = %(seen_owner)s
        AND s.counter = %(seen_counter)s AND (%(head)s = -1 OR s.seq = %(head)s) AND here.epoch >> 32 <= %(first)s >> 32
    RETURNING 1::int8 AS place, s.number, s.digest, s.family, s.epoch, s.sent, s.watched
)

-- name: create
WITH here AS (
    SELECT greatest(%(seen_epoch)s, incarnation << 32) + 1 AS epoch FROM {s}.store FOR SHARE
), turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(%(turn)s)
), head AS (
    INSERT INTO {s}.sessions AS s (digest, id, family, seq, chain, epoch, owner, counter, leased, tick, sent, watched, summary)
    SELECT %(digest)s, %(id)s, %(family)s, %(until)s, %(chain)s, here.epoch, %(owner)s, 0, clock_timestamp(),
        nextval('{s}.ticks'), 0, '-infinity', %(summary)s
    FROM here, turn WHERE here.epoch >> 32 <= %(first)s >> 32
    ON CONFLICT (digest) DO NOTHING
    RETURNING 1::int8 AS place, s.number, s.digest, s.family, s.epoch, s.sent, s.watched
)

-- name: fork
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(%(turn)s)
), head AS (
    INSERT INTO {s}.sessions AS s (
        digest, id, family, seq, chain, epoch, owner, counter, leased, tick, sent, watched, summary, base, base_seq
    )
    SELECT %(digest)s, %(id)s, b.family, %(until)s, %(chain)s, %(epoch)s, '', 0, clock_timestamp(),
        nextval('{s}.ticks'), 0, '-infinity', %(summary)s, b.number, %(base_seq)s
    FROM turn, {s}.sessions b WHERE b.digest = %(base)s AND b.id IS NOT NULL
    ON CONFLICT (digest) DO NOTHING
    RETURNING 1::int8 AS place, s.number, s.digest, s.family, s.epoch, s.sent, s.watched
)

-- name: amend
WITH head AS (
    UPDATE {s}.sessions s SET seq = %(until)s,
        chain = CASE %(chain)s::bytea WHEN '' THEN s.chain ELSE %(chain)s END,
        summary = CASE %(summary)s::bytea WHEN '' THEN s.summary ELSE %(summary)s END
    WHERE s.digest = %(digest)s
    RETURNING 1::int8 AS place, s.number, s.digest, s.family, s.epoch, s.sent, s.watched
)

-- name: held
WITH head AS (
    SELECT 1::int8 AS place, number, digest, family, epoch, sent, watched FROM {s}.sessions
    WHERE digest = %(digest)s AND id IS NOT NULL
        AND CASE %(epoch)s WHEN -1 THEN owner = '' ELSE epoch = %(epoch)s AND owner <> '' END FOR SHARE
)

-- What goes in with it.

-- name: with_record
, record AS (
    INSERT INTO {s}.records (session, seq, epoch, kind, time_us, chain, body)
    SELECT number, %(until)s, %(r_epoch)s, %(r_kind)s, %(r_time)s, %(chain)s, %(r_body)s::bytea FROM head
)

-- name: with_records
, records AS (
    INSERT INTO {s}.records (session, seq, epoch, kind, time_us, chain, body)
    SELECT head.number, (%(r_n)s::int8[])[5 * r.i - 3], (%(r_n)s::int8[])[5 * r.i - 2], (%(r_n)s::int8[])[5 * r.i - 1],
        (%(r_n)s::int8[])[5 * r.i], r.chain, r.body
    FROM unnest(%(r_chain)s::bytea[], %(r_body)s::bytea[]) WITH ORDINALITY AS r (chain, body, i)
    JOIN head ON head.place = (%(r_n)s::int8[])[5 * r.i - 4]
)

-- name: with_point
, point AS (
    INSERT INTO {s}.points (session, seq, parent, flags, time_us, name)
    SELECT number, %(p_seq)s, %(p_parent)s, %(p_flags)s, %(p_time)s, %(p_name)s::bytea FROM head
    ON CONFLICT (session, seq) DO UPDATE
    SET parent = excluded.parent, flags = excluded.flags, time_us = excluded.time_us, name = excluded.name
)

-- name: with_points
, points AS (
    INSERT INTO {s}.points (session, seq, parent, flags, time_us, name)
    SELECT head.number, (%(p_n)s::int8[])[5 * p.i - 3], (%(p_n)s::int8[])[5 * p.i - 2], (%(p_n)s::int8[])[5 * p.i - 1],
        (%(p_n)s::int8[])[5 * p.i], p.name
    FROM unnest(%(p_name)s::bytea[]) WITH ORDINALITY AS p (name, i)
    JOIN head ON head.place = (%(p_n)s::int8[])[5 * p.i - 4]
    ON CONFLICT (session, seq) DO UPDATE
    SET parent = excluded.parent, flags = excluded.flags, time_us = excluded.time_us, name = excluded.name
)

-- name: with_keyframes
, keyframes AS (
    INSERT INTO {s}.keyframes (session, seq, record)
    SELECT head.number, (%(k_n)s::int8[])[i - 1], (%(k_n)s::int8[])[i]
    FROM generate_series(3, cardinality(%(k_n)s::int8[]), 3) AS i JOIN head ON head.place = (%(k_n)s::int8[])[i - 2]
    ON CONFLICT (session, seq) DO UPDATE SET record = excluded.record
)

-- name: with_marks
, marks AS (
    INSERT INTO {s}.marks (session, mark, seq)
    SELECT head.number, m.mark, (%(m_n)s::int8[])[2 * m.i]
    FROM unnest(%(m_mark)s::bytea[]) WITH ORDINALITY AS m (mark, i)
    JOIN head ON head.place = (%(m_n)s::int8[])[2 * m.i - 1]
    ON CONFLICT DO NOTHING
)

-- name: with_chunks
, chunks AS (
    INSERT INTO {s}.chunks AS old (family, digest, content)
    SELECT DISTINCT ON (head.family, c.digest) head.family, c.digest, c.content
    FROM unnest(%(c_n)s::int8[], %(c_digest)s::bytea[], %(c_content)s::bytea[]) AS c (place, digest, content)
    JOIN head USING (place) ORDER BY head.family, c.digest
    ON CONFLICT (family, digest) DO UPDATE SET content = excluded.content WHERE old.content <> excluded.content
)

-- name: with_taken
, taken AS (
    DELETE FROM {s}.inbox i USING head, generate_series(2, cardinality(%(t_n)s::int8[]), 2) AS t
    WHERE head.place = (%(t_n)s::int8[])[t - 1] AND i.session = head.number AND i.number = (%(t_n)s::int8[])[t]
    RETURNING head.place
)

-- name: with_envelope
, envelope AS (
    INSERT INTO {s}.envelopes (family, content) SELECT family, %(envelope)s FROM head ON CONFLICT DO NOTHING
    RETURNING 1 AS put
)

-- What is told of it. A condition that cannot be told before is an error (a division by zero), which undoes all.

-- name: told
SELECT head.place, head.epoch, head.sent,
    CASE WHEN head.watched > clock_timestamp() THEN pg_notify(%(channel)s, encode(head.digest, 'hex'))::text END,
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END

-- name: all_taken
, 1 / (CASE (SELECT count(*) FROM taken) WHEN (
    SELECT count(*) FROM generate_series(1, cardinality(%(t_n)s::int8[]), 2) AS t
    JOIN head ON head.place = (%(t_n)s::int8[])[t]
) THEN 1 ELSE 0 END)

-- name: envelope_put
, 1 / (SELECT count(*) FROM envelope)

-- name: from_head
FROM head

-- name: renew
WITH asked AS (
    SELECT * FROM unnest(%(digests)s::bytea[], %(epochs)s::int8[], %(owners)s::bytea[])
        WITH ORDINALITY AS a (digest, epoch, owner, place)
)
UPDATE {s}.sessions s SET counter = s.counter + 1, leased = clock_timestamp() FROM asked a
WHERE s.digest = a.digest AND s.id IS NOT NULL AND s.epoch = a.epoch AND s.owner = a.owner AND s.owner <> ''
RETURNING a.place, s.counter

-- name: release
UPDATE {s}.sessions SET owner = '', counter = counter + 1, leased = clock_timestamp()
WHERE digest = %(digest)s AND id IS NOT NULL AND epoch = %(epoch)s AND owner = %(owner)s AND owner <> ''
RETURNING CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
    CASE WHEN watched > clock_timestamp() THEN pg_notify(%(channel)s, encode(digest, 'hex'))::text END

-- name: send
WITH session AS (
    UPDATE {s}.sessions s SET sent = s.sent + 1 WHERE s.digest = %(digest)s AND s.id IS NOT NULL
    RETURNING s.number, s.sent
), item AS (
    INSERT INTO {s}.inbox (session, number, content) SELECT number, sent, %(content)s FROM session
)
SELECT sent, pg_notify(%(channel)s, %(bell)s)::text FROM session

-- name: send_marked
WITH session AS (
    UPDATE {s}.sessions s SET sent = s.sent + 1 WHERE s.digest = %(digest)s AND s.id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM {s}.sent_marks m WHERE m.session = s.number AND m.mark = %(mark)s)
    RETURNING s.number, s.sent
), item AS (
    INSERT INTO {s}.inbox (session, number, content) SELECT number, sent, %(content)s FROM session
), mark AS (
    INSERT INTO {s}.sent_marks (session, mark) SELECT number, %(mark)s FROM session
)
SELECT sent, pg_notify(%(channel)s, %(bell)s)::text FROM session

-- name: watch
UPDATE {s}.sessions SET watched = clock_timestamp() + interval '2 minutes'
WHERE digest = %(digest)s AND id IS NOT NULL AND watched < clock_timestamp() + interval '1 minute'

-- name: family_turn
SELECT pg_advisory_xact_lock(%(turn)s)

-- name: kin
SELECT id FROM {s}.sessions WHERE family = %(family)s AND id IS NOT NULL

-- name: kin_locked
SELECT digest, id, epoch, owner, counter, seq FROM {s}.sessions WHERE family = %(family)s AND id IS NOT NULL
ORDER BY number FOR UPDATE

-- name: change_bodies
UPDATE {s}.records r SET body = b.body FROM unnest(%(seqs)s::int8[], %(bodies)s::bytea[]) AS b (seq, body)
WHERE r.session = %(number)s AND r.seq = b.seq RETURNING r.seq

-- name: drop_points
DELETE FROM {s}.points WHERE session = %(number)s AND seq = ANY (%(seqs)s)

-- name: drop_keyframes
DELETE FROM {s}.keyframes WHERE session = %(number)s AND seq = ANY (%(seqs)s)

-- name: drop_marks
DELETE FROM {s}.marks m USING unnest(%(marks)s::bytea[], %(seqs)s::int8[]) AS d (mark, seq)
WHERE m.session = %(number)s AND m.mark = d.mark AND m.seq = d.seq

-- name: drop_chunks
DELETE FROM {s}.chunks WHERE family = %(family)s AND digest = ANY (%(digests)s)

-- name: put_envelope
INSERT INTO {s}.envelopes (family, content) VALUES (%(family)s, %(content)s)
ON CONFLICT (family) DO UPDATE SET content = excluded.content

-- name: forks
SELECT id FROM {s}.sessions WHERE base = %(number)s ORDER BY number

-- name: bury
UPDATE {s}.sessions SET id = NULL, family = '', seq = 0, chain = '', owner = '', summary = '', base = NULL,
    base_seq = NULL, sent = 0 WHERE number = %(number)s
RETURNING CASE WHEN watched > clock_timestamp() THEN pg_notify(%(channel)s, encode(digest, 'hex'))::text END

-- name: delete_records
DELETE FROM {s}.records WHERE session = %(number)s

-- name: delete_points
DELETE FROM {s}.points WHERE session = %(number)s

-- name: delete_keyframes
DELETE FROM {s}.keyframes WHERE session = %(number)s

-- name: delete_marks
DELETE FROM {s}.marks WHERE session = %(number)s

-- name: delete_inbox
DELETE FROM {s}.inbox WHERE session = %(number)s

-- name: delete_sent_marks
DELETE FROM {s}.sent_marks WHERE session = %(number)s

-- name: delete_chunks
DELETE FROM {s}.chunks WHERE family = %(family)s

-- name: delete_envelopes
DELETE FROM {s}.envelopes WHERE family = %(family)s

-- name: begin
WITH over AS (
    DELETE FROM {s}.commits WHERE token = ANY (%(over)s)
), this AS (
    INSERT INTO {s}.commits (token, made, undone) VALUES (%(token)s, clock_timestamp(), false)
)
SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
    set_config('idle_in_transaction_session_timeout', '5s', true), set_config('lock_timeout', %(busy)s, true)

-- What became of it. If it was not committed it cannot be any more, as its token is taken; while it is under way this
-- waits for it. (pg_xact_status would not do: after a crash numbers are given again that were not flushed.)

-- name: became
INSERT INTO {s}.commits AS c (token, made, undone) VALUES (%(token)s, clock_timestamp(), true)
ON CONFLICT (token) DO UPDATE SET undone = c.undone RETURNING c.undone

-- name: forget_commits
DELETE FROM {s}.commits WHERE made < clock_timestamp() - interval '1 day'

-- The space that the tables take.

-- name: tables
SELECT c.relname::text, pg_total_relation_size(c.oid), coalesce(t.n_dead_tup, 0), coalesce(t.n_live_tup, 0)
FROM pg_class c LEFT JOIN pg_stat_all_tables t ON t.relid = c.oid
WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r' ORDER BY c.relname

-- name: parts
SELECT n FROM {s}.store, generate_series(0, store.partitions - 1) AS n
WHERE satisfies_hash_partition(to_regclass(%(table)s)::oid, store.partitions, n, %(key)s)

-- name: older
SELECT pid, pg_blocking_pids(pid) IS NULL FROM pg_stat_activity
WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
    AND backend_type <> 'autovacuum worker' AND xact_start < %(since)s::timestamptz

-- name: now
SELECT clock_timestamp()::text

-- name: settings
SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'default_transaction_read_only')

-- name: broken_tail
SELECT s.id, s.seq, coalesce(r.seq, 0) FROM {s}.sessions s LEFT JOIN LATERAL (
    SELECT seq, chain FROM {s}.records r WHERE r.session = s.number ORDER BY seq DESC LIMIT 1
) r ON true
WHERE s.id IS NOT NULL AND (coalesce(r.seq, s.base_seq, 0) <> s.seq OR (r.seq IS NOT NULL AND r.chain <> s.chain)) LIMIT 20
