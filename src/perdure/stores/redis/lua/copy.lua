#!lua flags=no-writes
-- session. Told: epoch, owner, counter, family, seq, chain, epoch, summary of a copy; nothing if there is none.
return run(function()
  local row = row_of(ARGV[1])
  if not row or row.base or not row.seam then
    return {'ok'}
  end
  local summary = redis.call('HGET', key('session', row.id), 'summary')
  return {'ok', row.epoch, row.owner, row.counter, row.family, row.seq, row.chain, row.epoch, summary}
end)
