#!lua
-- receipt, ms, '', is of a family, session, has seen one, seen, new.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local name = HOUSE
  if ARGV[4] == '1' then
    name = key('family', session(ARGV[5]).family)
  end
  typed(name, 'hash')
  local there = redis.call('HGET', name, 'envelope')
  if (there or '') ~= ARGV[7] or (there and '1' or '0') ~= ARGV[6] then
    refuse('other_envelope', ARGV[5])
  end

  settle()
  redis.call('HSET', name, 'envelope', ARGV[8])
  return done(ARGV[1])
end)
