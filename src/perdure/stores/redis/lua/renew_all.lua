#!lua flags=allow-oom
-- '', ms, ttl, then for each: session, epoch, owner. Told for each: the new counter, or nothing where it is not the newest.
return run(function()
  local told = {'ok'}
  for place = 4, #ARGV, 3 do
    local is_whole, row = pcall(function()
      local found = row_of(ARGV[place])
      if found and found.epoch == ARGV[place + 1] and found.owner == ARGV[place + 2] then
        check_all(found, ARGV[3], {})
        return found
      end
    end)
    local counter = false
    if is_whole and row then
      counter = redis.call('HINCRBY', key('session', row.id), 'counter', 1)
      set(row, {'moved', text(now_ms())})
      keep(row, ARGV[3])
    end
    table.insert(told, counter)
  end
  return told
end)
