-- Statements of the SQLite store, each under its name.

-- name: session
SELECT number, family, epoch, counter, seq, tick, sent, owner, base, base_seq, (SELECT tick FROM store)
FROM sessions WHERE id = ?;

-- name: held_at
-- What a save needs of a row, if all of it is what `rows.find` wants: of the right types, and in bounds.
SELECT number, family, owner, sent, tick, (SELECT tick FROM store)
FROM sessions
WHERE id = ? AND epoch = ? AND seq = ? AND owner <> x''
    AND seq <= 4294967295 AND min(number, family, epoch, counter, seq, tick, sent) >= 0
    AND typeof(family) = 'integer' AND typeof(epoch) = 'integer' AND typeof(counter) = 'integer'
    AND typeof(seq) = 'integer' AND typeof(tick) = 'integer' AND typeof(sent) = 'integer'
    AND CASE
        WHEN base_seq IS NOT NULL THEN
            typeof(base_seq) = 'integer' AND base_seq BETWEEN 0 AND seq
            AND (base IS NULL OR typeof(base) = 'integer' AND base >= 0)
        ELSE base IS NULL
    END;

-- name: session_again
SELECT 1 FROM sessions WHERE id || '' = ?;

-- name: erased
SELECT 1 FROM tombstones WHERE digest = ?;

-- name: tick
SELECT tick FROM store;

-- name: set_tick
UPDATE store SET tick = ?;

-- name: found_family
INSERT OR IGNORE INTO families (id) VALUES (?);

-- name: family
SELECT number FROM families WHERE id = ?;

-- name: create
INSERT INTO sessions (id, family, seq, chain, epoch, owner, counter, tick, sent, summary)
VALUES (:id, :family, 0, zeroblob(32), :epoch, :owner, 0, :tick, 0, x'');

-- name: create_fork
INSERT INTO sessions (id, family, seq, chain, epoch, owner, counter, tick, sent, summary, base, base_seq)
VALUES (:id, :family, :seq, :chain, :epoch, x'', 0, :tick, 0, :summary, :base, :base_seq);

-- name: adopt
INSERT INTO sessions (id, family, seq, chain, epoch, owner, counter, tick, sent, summary, base_seq)
VALUES (:id, :family, :seq, :chain, :epoch, :owner, :counter, :tick, 0, :summary, :seq);

-- name: copies
SELECT id, (
    SELECT coalesce(sum(length(body)), 0) FROM records
    WHERE key BETWEEN sessions.number << 32 AND sessions.number << 32 | 4294967295
)
FROM sessions WHERE base IS NULL AND base_seq IS NOT NULL ORDER BY tick DESC;

-- name: bases
WITH RECURSIVE up (number, base, base_seq) AS (
    SELECT number, base, base_seq FROM sessions WHERE number = ?
    UNION ALL
    SELECT s.number, s.base, s.base_seq FROM up JOIN sessions s ON s.number = up.base WHERE up.base < up.number
)
SELECT up.base, s.id, up.base_seq FROM up LEFT JOIN sessions s ON s.number = up.base WHERE up.base IS NOT NULL
ORDER BY up.number;

-- name: forks
SELECT id FROM sessions WHERE base = ? ORDER BY number;

-- name: set_lease
UPDATE sessions SET epoch = ?, owner = ?, counter = ? WHERE number = ?;

-- name: renew
UPDATE sessions SET counter = ? WHERE number = ?;

-- name: add_record
INSERT INTO records (key, epoch, kind, time_us, chain, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: fill_record
INSERT OR IGNORE INTO records (key, epoch, kind, time_us, chain, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_point
INSERT OR REPLACE INTO points (key, parent, flags, name, time_us) VALUES (?, ?, ?, ?, ?);

-- name: add_keyframe
INSERT OR REPLACE INTO keyframes (key, record) VALUES (?, ?);

-- name: add_mark
INSERT OR IGNORE INTO marks (session, mark, seq) VALUES (?, ?, ?);

-- name: set_head
UPDATE sessions
SET seq = coalesce(?, seq), chain = coalesce(?, chain), tick = ?, summary = coalesce(?, summary)
WHERE number = ?;

-- name: header
SELECT epoch, kind, time_us, chain FROM records WHERE key = ?;

-- name: delete_record
DELETE FROM records WHERE key = ?;

-- name: delete_point
DELETE FROM points WHERE key = ?;

-- name: delete_keyframe
DELETE FROM keyframes WHERE key = ?;

-- name: delete_mark
DELETE FROM marks WHERE session = ? AND mark = ? AND seq = ?;

-- name: kin
SELECT id FROM sessions WHERE family = ?;

-- name: records
SELECT key, epoch, kind, time_us, body, chain FROM records WHERE key BETWEEN ? AND ? ORDER BY key;

-- name: record
SELECT key, epoch, kind, time_us, body, chain FROM records WHERE key = ?;

-- name: heads
SELECT s.id, f.id, s.seq, s.chain, s.epoch, s.summary, s.number, s.base, s.base_seq
FROM sessions s LEFT JOIN families f ON f.number = s.family
ORDER BY s.tick DESC;

-- name: heads_between
SELECT s.id, f.id, s.seq, s.chain, s.epoch, s.summary, s.number, s.base, s.base_seq
FROM sessions s LEFT JOIN families f ON f.number = s.family
WHERE s.id >= ? AND s.id < ? ORDER BY s.tick DESC;

-- name: numbers_between
SELECT number FROM sessions WHERE id || '' >= ? AND id || '' < ?;

-- name: head
SELECT s.id, f.id, s.seq, s.chain, s.epoch, s.summary, s.number, s.base
FROM sessions s LEFT JOIN families f ON f.number = s.family
WHERE s.id = ?;

-- name: points
SELECT key, parent, flags, name, time_us FROM points WHERE key BETWEEN ? AND ? ORDER BY key;

-- name: keyframes
SELECT key, record FROM keyframes WHERE key BETWEEN ? AND ? ORDER BY key;

-- name: marks
SELECT mark, seq FROM marks WHERE session = ? AND seq <= ?;

-- name: find
SELECT seq FROM marks WHERE session = ? AND mark = ? AND seq <= ? ORDER BY seq;

-- name: add_item
INSERT INTO inbox (key, content) VALUES (?, ?);

-- name: set_sent
UPDATE sessions SET sent = ? WHERE number = ?;

-- name: add_sent_mark
INSERT OR IGNORE INTO sent_marks (session, mark) VALUES (?, ?);

-- name: inbox
SELECT key, content FROM inbox WHERE key > ? AND key <= ? ORDER BY key;

-- name: take_item
DELETE FROM inbox WHERE key = ?;

-- name: put_chunk
INSERT INTO chunks (family, digest, content) VALUES (?, ?, ?)
ON CONFLICT (family, digest) DO UPDATE SET content = excluded.content WHERE content IS NOT excluded.content;

-- name: fill_chunk
INSERT OR IGNORE INTO chunks (family, digest, content) VALUES (?, ?, ?);

-- name: chunk
SELECT content FROM chunks WHERE family = ? AND digest = ?;

-- name: chunk_sizes
SELECT digest, length(content) FROM chunks WHERE family = ?;

-- name: drop_chunk
DELETE FROM chunks WHERE family = ? AND digest = ?;

-- name: envelope
SELECT content FROM envelopes WHERE family = ?;

-- name: put_envelope
INSERT OR REPLACE INTO envelopes (family, content) VALUES (?, ?);

-- name: delete_envelope
DELETE FROM envelopes WHERE family = :family AND NOT EXISTS (SELECT 1 FROM sessions WHERE family = :family);

-- name: bury
INSERT INTO tombstones (digest) VALUES (?);

-- name: delete_records
DELETE FROM records WHERE key BETWEEN ? AND ?;

-- name: delete_points
DELETE FROM points WHERE key BETWEEN ? AND ?;

-- name: delete_keyframes
DELETE FROM keyframes WHERE key BETWEEN ? AND ?;

-- name: delete_marks
DELETE FROM marks WHERE session = ?;

-- name: delete_inbox
DELETE FROM inbox WHERE key BETWEEN ? AND ?;

-- name: delete_sent_marks
DELETE FROM sent_marks WHERE session = ?;

-- name: delete_session
DELETE FROM sessions WHERE number = ?;

-- name: delete_chunks
DELETE FROM chunks WHERE family = :family AND NOT EXISTS (SELECT 1 FROM sessions WHERE family = :family);

-- name: delete_family
DELETE FROM families WHERE number = :family AND NOT EXISTS (SELECT 1 FROM sessions WHERE family = :family);

-- name: broken_tail
SELECT s.id, s.seq, r.key & 4294967295
FROM sessions s LEFT JOIN records r ON r.key = (
    SELECT max(key) FROM records WHERE key BETWEEN s.number << 32 AND s.number << 32 | 4294967295
)
WHERE max(coalesce(r.key & 4294967295, 0), coalesce(s.base_seq, 0)) <> s.seq
   OR (r.key & 4294967295 = s.seq AND r.chain <> s.chain)
LIMIT 1;
