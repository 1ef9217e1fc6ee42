#!lua flags=no-writes
-- is of a family, session. Told: the envelope, or nothing.
return run(function()
  local name = HOUSE
  if ARGV[1] == '1' then
    name = key('family', session(ARGV[2]).family)
  end
  typed(name, 'hash')
  return {'ok', redis.call('HGET', name, 'envelope')}
end)
