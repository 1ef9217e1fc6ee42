#!lua flags=allow-oom
-- '', ms, ttl, session, epoch, owner. Told: the new counter.
return run(function()
  local row = session(ARGV[4])
  check_all(row, ARGV[3], {})
  if row.epoch ~= ARGV[5] or row.owner ~= ARGV[6] then
    refuse('fenced', lease_of(row))
  end

  local counter = redis.call('HINCRBY', key('session', row.id), 'counter', 1)
  set(row, {'moved', text(now_ms())})
  keep(row, ARGV[3])
  return {'ok', counter}
end)
