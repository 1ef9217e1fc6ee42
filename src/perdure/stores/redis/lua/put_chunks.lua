#!lua
-- '', ms, ttl, session, epoch, then addresses and contents.
return run(function()
  local row = held(ARGV[4], ARGV[5])
  check_all(row, ARGV[3], {})
  typed(key('chunks', row.family), 'hash')

  put('HSET', key('chunks', row.family), {6, #ARGV})
  keep(row, ARGV[3])
  return {'ok'}
end)
