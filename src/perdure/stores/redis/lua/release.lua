#!lua flags=allow-oom
-- '', ms, ttl, session, epoch, owner.
return run(function()
  local row = row_of(ARGV[4])
  if not row or row.epoch ~= ARGV[5] or row.owner ~= ARGV[6] then
    return {'ok'}
  end
  check_all(row, ARGV[3], {})

  redis.call('HINCRBY', key('session', row.id), 'counter', 1)
  set(row, {'owner', '', 'moved', text(now_ms())})
  keep(row, ARGV[3])
  tell(row.id)
  return {'ok'}
end)
