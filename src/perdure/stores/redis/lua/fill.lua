#!lua
-- '', ms, ttl, session, seen epoch, seen owner, seen counter, how many words of records, them, addresses and contents.
return run(function()
  local row = as_copy(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
  check_all(row, ARGV[3], {'records'})
  typed(key('chunks', row.family), 'hash')

  local chunks = 9 + tonumber(ARGV[8])
  for place = 9, chunks - 1, 2 do
    if tonumber(ARGV[place]) <= tonumber(row.seq) then
      redis.call('HSETNX', key('records', row.id), ARGV[place], ARGV[place + 1])
    end
  end
  for place = chunks, #ARGV, 2 do
    redis.call('HSETNX', key('chunks', row.family), ARGV[place], ARGV[place + 1])
  end
  keep(row, ARGV[3])
  return {'ok'}
end)
