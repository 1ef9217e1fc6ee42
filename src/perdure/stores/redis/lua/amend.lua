#!lua flags=allow-oom
-- receipt, ms, '', session, epoch, owner, counter, head, known chain, then five lengths of the change (bodies, points,
-- keyframes, marks, family), the batch, and what the lengths count. Memory that is full is no reason to keep what may go.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local row = as_seen(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
  local id, batch = row.id, batch_at(15)
  check_all(row, '', {'records', 'points', 'keyframes', 'marks', 'inbox'})
  check_chunks(row.family, batch)
  check_head(row, ARGV[8], ARGV[9])
  local change, from = {}, batch.after
  for offset, name in ipairs({'bodies', 'points', 'keyframes', 'marks', 'family'}) do
    change[name] = {from, from + tonumber(ARGV[9 + offset]) - 1}
    from = change[name][2] + 1
  end
  check_kin(row.family, change.family)
  check_taken(id, batch)
  local replaced = {}
  for place = change.bodies[1], change.bodies[2], 2 do
    local old = redis.call('HGET', key('records', id), ARGV[place])
    if not old then
      refuse('missing', id, ARGV[place])
    elseif #old < HEADER then
      refuse('damage', key('records', id), ARGV[place])
    end
    table.insert(replaced, {ARGV[place], string.sub(old, 1, HEADER) .. ARGV[place + 1]})
  end

  insert(row, batch)
  for _, pair in ipairs(replaced) do
    redis.call('HSET', key('records', id), pair[1], pair[2])
  end
  put('HDEL', key('points', id), change.points)
  put('HDEL', key('keyframes', id), change.keyframes)
  put('ZREM', key('marks', id), change.marks)
  set(row, head_of(batch))
  join(id, row.family)
  tell(id)
  return done(ARGV[1])
end)
