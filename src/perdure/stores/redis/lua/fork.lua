#!lua
-- receipt, ms, ttl, session, epoch, base, seq in it, batch, identity of the place.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local id, seam, batch = ARGV[4], tonumber(ARGV[7]), batch_at(8)
  check_place(ARGV[#ARGV])
  check_new(id)
  local base = session(ARGV[6])
  local own_from = tonumber(base.seam or 0) + 1
  if seam < own_from or seam > tonumber(base.seq) then
    refuse('place', base.id, own_from, tonumber(base.seq))
  end
  check_all(base, ARGV[3])
  local row = {id = id, family = base.family, base = base.id, seam = ARGV[7], seq = batch.last, ttl = base.ttl}
  check_all(row, ARGV[3])

  insert(row, batch)
  local fields = head_of(batch)
  for _, value in ipairs({'family', row.family, 'base', row.base, 'seam', row.seam, 'summary', batch.summary}) do
    table.insert(fields, value)
  end
  add_lease(fields, ARGV[5], '', 0)
  add(row, fields, ARGV[3])
  return done(ARGV[1])
end)
