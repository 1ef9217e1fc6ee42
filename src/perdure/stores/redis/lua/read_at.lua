#!lua flags=no-writes
-- session, bytes, numbers. Told for each in turn: whose record it is, and the record, or nothing. It stops after so many
-- bytes; whoever asked asks for the rest.
return run(function()
  local runs, told, room = runs_of(session(ARGV[1])), {'ok'}, tonumber(ARGV[2])
  for place = 3, #ARGV do
    local seq, owner = tonumber(ARGV[place]), ''
    for _, run in ipairs(runs) do
      if run.after < seq and seq <= run.last then
        owner = run.id
      end
    end
    typed(key('records', owner), 'hash')
    local record = owner ~= '' and redis.call('HGET', key('records', owner), ARGV[place])
    room = room - (record and #record or 0)
    table.insert(told, {owner, record})
    if room <= 0 then
      break
    end
  end
  return told
end)
