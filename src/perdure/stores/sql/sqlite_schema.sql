-- Layout 1 of a SQLite store. Keys of records, points and keyframes are (session's number << 32 | seq), so that each
-- session is one run of neighbours in a table with an integer key, the cheapest there is.

CREATE TABLE store (
    tick INTEGER NOT NULL  -- grows when another session than the one before is written; orders listings
);

CREATE TABLE families (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE
);

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again
    id TEXT NOT NULL UNIQUE,
    family INTEGER NOT NULL,
    seq INTEGER NOT NULL,                      -- the head
    chain BLOB NOT NULL,
    epoch INTEGER NOT NULL,                    -- the newest lease
    owner BLOB NOT NULL,                       -- empty: nobody
    counter INTEGER NOT NULL,
    tick INTEGER NOT NULL,
    sent INTEGER NOT NULL,                     -- the newest item of the inbox, taken or not
    summary BLOB NOT NULL,
    base INTEGER,                              -- of a fork: the session whose records its log begins with,
    base_seq INTEGER                           -- up to this one
);

-- The id once more, in a tree of its own: a session that only one of the two finds is damaged, and not new.
CREATE UNIQUE INDEX sessions_again ON sessions (id || '');

CREATE INDEX forks ON sessions (base) WHERE base IS NOT NULL;

CREATE TABLE records (
    key INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    chain BLOB NOT NULL,
    body BLOB NOT NULL
);

CREATE TABLE points (
    key INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    name BLOB,
    time_us INTEGER NOT NULL
);

CREATE TABLE keyframes (
    key INTEGER PRIMARY KEY,
    record INTEGER NOT NULL
);

CREATE TABLE marks (
    session INTEGER NOT NULL,
    mark BLOB NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (session, mark, seq)
) WITHOUT ROWID;

CREATE TABLE inbox (
    key INTEGER PRIMARY KEY,  -- session's number << 32 | item's number
    content BLOB NOT NULL
);

CREATE TABLE sent_marks (
    session INTEGER NOT NULL,
    mark BLOB NOT NULL,       -- what was sent once; stays when the item is taken
    PRIMARY KEY (session, mark)
) WITHOUT ROWID;

CREATE TABLE chunks (
    number INTEGER PRIMARY KEY,
    family INTEGER NOT NULL,
    digest BLOB NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (family, digest)
);

CREATE TABLE tombstones (
    digest BLOB NOT NULL PRIMARY KEY  -- SHA-256 of the id: that it was here is kept, its name is not
) WITHOUT ROWID;

INSERT INTO store (tick) VALUES (0);
