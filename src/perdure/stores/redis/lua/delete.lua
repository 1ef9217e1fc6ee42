#!lua flags=allow-oom
-- '', ms, '', session.
return run(function()
  local id = ARGV[4]
  local row = row_of(id)
  if not row then
    if is_erased(id) then
      return {'ok'}
    end
    refuse('unknown', id)
  end
  check_all(row, '')
  local forks = forks_of(id)
  if #forks > 0 then
    refuse('forks', id, unpack(forks, 1, math.min(#forks, 100)))
  end

  redis.call('SADD', ERASED, redis.sha1hex(id))
  redis.call('UNLINK', key('session', id))
  for kind in pairs(OWN) do
    redis.call('UNLINK', key(kind, id))
  end
  redis.call('ZREM', SESSIONS, id)
  redis.call('ZREM', EXPIRING, id)
  redis.call('SREM', key('kin', row.family), id)
  if row.base then
    redis.call('SREM', key('forks', row.base), id)
  end
  refit(row.family)
  tell(id)
  return {'ok'}
end)
