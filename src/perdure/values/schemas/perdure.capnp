# What perdure stores, in Cap'n Proto: the same as perdure.proto. A reader finds one field without decoding the rest.
@0xd7f0a1c05e1b9a63;

struct Value {
  union {
    none @0 :Void;
    flag @1 :Bool;
    int @2 :Int64;
    uint @3 :UInt64;  # only above 2^63 - 1
    float @4 :Float64;
    text @5 :Text;
    data @6 :Data;
    list @7 :List(Value);
    dict @8 :List(Entry);
    tagged @9 :Tagged;
    instance @10 :Instance;
    encoded @11 :Value;  # in a record's body: a value that is digested and compared on its own
    floats @12 :List(Float64);  # a list of one or more floats and nothing else
  }
}

struct Entry {
  # One of a dict whose keys are text; their order counts, no key is there twice.
  key @0 :Text;
  value @1 :Value;
}

struct Tagged {
  # A value of a kind beyond the plain ones (docs/format.md, 3.1), and what it is made of.
  kind @0 :UInt8;
  tree @1 :Value;
}

struct Instance {
  # An instance of a registered class.
  tag @0 :Text;
  version @1 :UInt32;
  body @2 :Value;
}

struct Record {
  # One record of a log, as `perdure export --log` writes it: what looks like a secret is masked.
  session @0 :Text;
  seq @1 :UInt64;
  epoch @2 :UInt64;
  kind @3 :Text;
  timeUs @4 :UInt64;  # microseconds since 1970, UTC
  chain @5 :Data;
  body @6 :Value;
}

struct Log {
  # The records of a log, in order.
  records @0 :List(Record);
}

struct Snapshot {
  # An agent snapshot (docs/snapshots.md) for programs that hand one on by this schema. perdure writes no such message
  # itself: a snapshot file holds the Value alone, in a frame (docs/format.md, 15).
  value @0 :Value;  # a dict
}
