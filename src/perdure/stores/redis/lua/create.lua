#!lua
-- receipt, ms, ttl, session, owner, family, epoch, incarnation, chain of an empty log, identity of the place.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  check_place(ARGV[#ARGV])
  local row = {id = ARGV[4], family = ARGV[6]}
  check_all(row, ARGV[3])
  check_new(row.id)
  check_incarnation(ARGV[8])

  local fields = {'family', row.family, 'seq', 0, 'chain', ARGV[9], 'summary', ''}
  add_lease(fields, ARGV[7], ARGV[5], 0)
  add(row, fields, ARGV[3])
  return done(ARGV[1])
end)
