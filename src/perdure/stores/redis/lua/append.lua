#!lua
-- receipt, ms, ttl, session, epoch, head, known chain, again, batch. Told: the newest number that was sent.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local id, epoch, batch = ARGV[4], ARGV[5], batch_at(9)
  if ARGV[8] == '1' and batch.chain ~= '' then
    local row = session(id)
    typed(key('records', id), 'hash')
    local last = redis.call('HGET', key('records', id), batch.last)
    if last and string.sub(last, CHAIN, CHAIN + 31) == batch.chain then
      return {'ok', tonumber(row.sent)}
    end
  end
  local row = held(id, epoch)
  check_all(row, ARGV[3], batch.kinds)
  check_chunks(row.family, batch)
  check_front(row)
  if batch.incarnation and batch.incarnation < math.floor(tonumber(row.epoch) / 4294967296) then
    refuse('over', id, row.epoch)
  end
  check_head(row, ARGV[6], ARGV[7])
  check_taken(id, batch)

  local fields = head_of(batch)
  insert(row, batch)
  to_front(row, fields)
  set(row, fields)
  keep(row, ARGV[3])
  tell(id)
  if ARGV[1] == '' then
    return tonumber(row.sent) -- one number is less to read than a list
  end
  return done(ARGV[1], tonumber(row.sent))
end)
