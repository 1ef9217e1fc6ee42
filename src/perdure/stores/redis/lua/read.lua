#!lua flags=no-writes
-- session, after, upto ('': the end), bytes, records. Told: where the log ends, and runs of records: whose they are, the
-- number of the first, and each of them, or nothing where there is none. About so many bytes, but one at least.
return run(function()
  local row = session(ARGV[1])
  local after, upto, room, left = tonumber(ARGV[2]), tonumber(row.seq), tonumber(ARGV[4]), tonumber(ARGV[5])
  if ARGV[3] ~= '' then
    upto = math.min(upto, tonumber(ARGV[3]))
  end
  local told = {'ok', upto}
  for _, run in ipairs(runs_of(row)) do
    local first, name = math.max(after, run.after) + 1, key('records', run.id)
    local found = {run.id, first}
    typed(name, 'hash')
    for seq = first, math.min(upto, run.last) do
      if left == 0 then
        break
      end
      local record = redis.call('HGET', name, text(seq))
      room, left = room - (record and #record or 0), left - 1
      table.insert(found, record)
      if room <= 0 then
        left = 0
      end
    end
    if #found > 2 then
      table.insert(told, found)
    end
  end
  return told
end)
