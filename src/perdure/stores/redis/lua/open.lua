#!lua
-- receipt, ms, ttl, session, owner, epoch, incarnation, head, known chain, seen epoch ('' for a session that it makes),
-- seen owner, seen counter, has an envelope, envelope, batch, identity of the place (of a session that it makes). Told: the
-- newest number that was sent.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local id, is_new, batch = ARGV[4], ARGV[10] == '', batch_at(15)
  if is_new then
    check_place(ARGV[#ARGV])
  end
  check_incarnation(ARGV[7])
  local row = {id = id, family = id, sent = '0'}
  if is_new then
    check_all(row, ARGV[3])
    check_new(id)
    if ARGV[13] == '1' and redis.call('HEXISTS', key('family', id), 'envelope') == 1 then
      refuse('other_envelope', id)
    end
  else
    row = as_seen(id, ARGV[10], ARGV[11], ARGV[12])
    check_all(row, ARGV[3], batch.kinds)
    check_chunks(row.family, batch)
    check_front(row)
    check_head(row, ARGV[8], ARGV[9])
  end
  check_taken(id, batch)

  local fields = head_of(batch)
  add_lease(fields, ARGV[6], ARGV[5], 0)
  insert(row, batch)
  if is_new then
    for _, value in ipairs({'family', id, 'summary', batch.summary}) do
      table.insert(fields, value)
    end
    add(row, fields, ARGV[3])
    if ARGV[13] == '1' then
      redis.call('HSET', key('family', id), 'envelope', ARGV[14])
    end
  else
    to_front(row, fields)
    set(row, fields)
    keep(row, ARGV[3])
  end
  tell(id)
  return done(ARGV[1], tonumber(row.sent))
end)
