#!lua flags=no-writes
-- session, kind of index (points, keyframes, marks), first and last of the marks. Told for each run of the log, the oldest
-- first: the last record that counts, and what its index holds.
return run(function()
  local told, kind = {'ok'}, ARGV[2]
  for _, run in ipairs(runs_of(session(ARGV[1]))) do
    local name = key(kind, run.id)
    typed(name, OWN[kind])
    local found = kind == 'marks' and redis.call('ZRANGEBYLEX', name, ARGV[3], ARGV[4]) or redis.call('HGETALL', name)
    table.insert(told, run.last)
    table.insert(told, found)
  end
  return told
end)
