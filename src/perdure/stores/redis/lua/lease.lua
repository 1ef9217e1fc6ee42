#!lua flags=no-writes
-- session. Told: epoch, owner, counter, and for how many ms it has been this one by the server's clock.
return run(function()
  local row = session(ARGV[1])
  local moved = redis.call('HGET', key('session', row.id), 'moved')
  number(key('session', row.id), 'moved', moved or 'none')
  return {'ok', row.epoch, row.owner, row.counter, math.max(0, now_ms() - tonumber(moved))}
end)
