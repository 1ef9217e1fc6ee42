-- What layout 2 of a SQLite store has more than layout 1.

CREATE TABLE envelopes (
    family INTEGER PRIMARY KEY,  -- 0: of the store itself
    content BLOB NOT NULL
);
