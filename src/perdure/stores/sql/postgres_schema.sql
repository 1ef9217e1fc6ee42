-- Version 1 of a PostgreSQL store. {s} is its schema; {by session} and {by family} are empty, or have the table
-- partitioned. Texts are bytea: any character, zeros and lone surrogates included, whatever the database's encoding.
-- What people wrote has no statistics (STATISTICS 0): the planner needs none, and samples of it would outlive it.

CREATE TABLE {s}.versions (
    version integer PRIMARY KEY
);

CREATE TABLE {s}.store (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    incarnation bigint NOT NULL,
    partitions integer NOT NULL  -- 0: none
);

CREATE SEQUENCE {s}.ticks;  -- orders listings: each save draws one, and waits for nobody

CREATE TABLE {s}.sessions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest bytea NOT NULL UNIQUE,           -- SHA-256 of the id; stays when the session is erased
    id bytea,                               -- NULL: erased
    family bytea NOT NULL,                  -- the name of the family
    seq bigint NOT NULL,                    -- the head
    chain bytea NOT NULL,
    epoch bigint NOT NULL,                  -- the newest lease
    owner bytea NOT NULL,                   -- empty: nobody
    counter bigint NOT NULL,
    leased timestamptz NOT NULL,            -- when the lease became this one, by the server's clock
    tick bigint NOT NULL,
    sent bigint NOT NULL,                   -- the newest item of the inbox, taken or not
    watched timestamptz NOT NULL,           -- until then somebody may wait to hear of what is written
    summary bytea NOT NULL,
    base bigint,                            -- of a fork: the session whose records its log begins with,
    base_seq bigint                         -- up to this one
) WITH (fillfactor = 70);                   -- a save changes this row: in place, as no index has what it changes

CREATE INDEX sessions_family ON {s}.sessions (family);
CREATE INDEX sessions_base ON {s}.sessions (base) WHERE base IS NOT NULL;

CREATE TABLE {s}.records (
    session bigint NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    time_us bigint NOT NULL,
    kind smallint NOT NULL,
    chain bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (session, seq)
) {by session};

CREATE TABLE {s}.points (
    session bigint NOT NULL,
    seq bigint NOT NULL,
    parent bigint NOT NULL,
    time_us bigint NOT NULL,
    flags integer NOT NULL,
    name bytea,
    PRIMARY KEY (session, seq)
) {by session};

CREATE TABLE {s}.keyframes (
    session bigint NOT NULL,
    seq bigint NOT NULL,
    record bigint NOT NULL,
    PRIMARY KEY (session, seq)
) {by session};

CREATE TABLE {s}.marks (
    session bigint NOT NULL,
    seq bigint NOT NULL,
    mark bytea NOT NULL,
    PRIMARY KEY (session, mark, seq)
) {by session};

CREATE TABLE {s}.chunks (
    family bytea NOT NULL,
    digest bytea NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (family, digest)
) {by family};

CREATE TABLE {s}.inbox (
    session bigint NOT NULL,
    number bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (session, number)
);

CREATE TABLE {s}.sent_marks (
    session bigint NOT NULL,
    mark bytea NOT NULL,                    -- what was sent once; stays when the item is taken
    PRIMARY KEY (session, mark)
);

CREATE TABLE {s}.envelopes (
    family bytea PRIMARY KEY,               -- empty: of the store itself
    content bytea NOT NULL
);

CREATE TABLE {s}.commits (                  -- of transactions whose end may not have been heard
    token bytea PRIMARY KEY,
    made timestamptz NOT NULL,
    undone boolean NOT NULL                 -- it was looked for before it was there, and cannot come any more
);

-- Bodies and chunks are compressed before they come here.
ALTER TABLE {s}.records ALTER body SET STORAGE EXTERNAL, ALTER body SET STATISTICS 0;
ALTER TABLE {s}.chunks ALTER content SET STORAGE EXTERNAL, ALTER content SET STATISTICS 0,
    ALTER family SET STATISTICS 0;
ALTER TABLE {s}.inbox ALTER content SET STORAGE EXTERNAL, ALTER content SET STATISTICS 0;
ALTER TABLE {s}.sessions ALTER id SET STATISTICS 0, ALTER family SET STATISTICS 0, ALTER owner SET STATISTICS 0,
    ALTER summary SET STATISTICS 0;
ALTER TABLE {s}.points ALTER name SET STATISTICS 0;
ALTER TABLE {s}.marks ALTER mark SET STATISTICS 0;
ALTER TABLE {s}.sent_marks ALTER mark SET STATISTICS 0;
ALTER TABLE {s}.envelopes ALTER content SET STATISTICS 0, ALTER family SET STATISTICS 0;
