#!lua flags=no-writes
-- session. Told: family, seq, chain, epoch, summary, and its bases, the oldest first: session, seq.
return run(function()
  local row = session(ARGV[1])
  local summary = redis.call('HGET', key('session', row.id), 'summary')
  local told, runs = {'ok', row.family, row.seq, row.chain, row.epoch, summary}, runs_of(row)
  for place = 1, #runs - 1 do
    table.insert(told, runs[place].id)
    table.insert(told, tostring(runs[place].last))
  end
  return told
end)
