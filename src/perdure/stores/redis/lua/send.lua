#!lua
-- receipt, ms, ttl, session, has a mark, mark, content. Told: its number, or nothing if the mark was sent before.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local row = session(ARGV[4])
  check_all(row, ARGV[3], {'inbox', 'sent'})
  if ARGV[5] == '1' and redis.call('SISMEMBER', key('sent', row.id), ARGV[6]) == 1 then
    return {'ok'}
  end

  if ARGV[5] == '1' then
    redis.call('SADD', key('sent', row.id), ARGV[6])
  end
  local number = redis.call('HINCRBY', key('session', row.id), 'sent', 1)
  redis.call('HSET', key('inbox', row.id), number, ARGV[7])
  keep(row, ARGV[3])
  tell(row.id)
  return done(ARGV[1], number)
end)
