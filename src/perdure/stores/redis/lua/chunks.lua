#!lua flags=no-writes
-- session, bytes, addresses. Told: the contents in turn, or nothing; it stops after so many bytes.
return run(function()
  local name, told, room = key('chunks', session(ARGV[1]).family), {'ok'}, tonumber(ARGV[2])
  typed(name, 'hash')
  for place = 3, #ARGV do
    local content = redis.call('HGET', name, ARGV[place])
    room = room - (content and #content or 0)
    table.insert(told, content)
    if room <= 0 then
      break
    end
  end
  return told
end)
