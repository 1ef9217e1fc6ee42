#!lua flags=no-writes
-- session. Told: addresses, and the lengths of their contents.
return run(function()
  local name, told = key('chunks', session(ARGV[1]).family), {'ok'}
  typed(name, 'hash')
  for _, digest in ipairs(redis.call('HKEYS', name)) do
    table.insert(told, digest)
    table.insert(told, redis.call('HSTRLEN', name, digest))
  end
  return told
end)
