#!lua flags=allow-oom
-- receipt, ms, '', how many addresses, them, and for each session of the family: it, epoch, owner, counter, head.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local from, family, seen = 5 + tonumber(ARGV[4]), nil, {}
  for place = from, #ARGV, 5 do
    local row = as_seen(ARGV[place], ARGV[place + 1], ARGV[place + 2], ARGV[place + 3])
    check_head(row, ARGV[place + 4], '')
    if family and family ~= row.family then
      refuse('joined', row.id)
    end
    family, seen[row.id] = row.family, true
  end
  if not family then
    return {'ok'}
  end
  for _, id in ipairs(kin_of(family)) do
    if not seen[id] then
      refuse('joined', id)
    end
  end
  typed(key('chunks', family), 'hash')

  put('HDEL', key('chunks', family), {5, from - 1})
  return done(ARGV[1])
end)
