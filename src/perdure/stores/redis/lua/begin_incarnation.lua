#!lua
-- '', ms, '', number.
return run(function()
  typed(HOUSE, 'hash')
  local newest = redis.call('HGET', HOUSE, 'incarnation')
  number(HOUSE, 'incarnation', newest)
  if tonumber(ARGV[4]) > tonumber(newest or 0) then
    settle()
    redis.call('HSET', HOUSE, 'incarnation', ARGV[4])
  end
  return {'ok'}
end)
