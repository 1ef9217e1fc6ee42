#!lua flags=no-writes
-- session. Told: numbers and contents, in any order.
return run(function()
  local row = session(ARGV[1])
  typed(key('inbox', row.id), 'hash')
  return {'ok', redis.call('HGETALL', key('inbox', row.id))}
end)
