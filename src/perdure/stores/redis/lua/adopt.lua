#!lua
-- receipt, ms, ttl, session, family, seq, chain, summary, epoch, owner, counter.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local row = {id = ARGV[4], family = ARGV[5]}
  check_all(row, ARGV[3])
  check_new(row.id)

  local fields = {'family', row.family, 'seq', ARGV[6], 'chain', ARGV[7], 'summary', ARGV[8], 'seam', ARGV[6]}
  add_lease(fields, ARGV[9], ARGV[10], ARGV[11])
  add(row, fields, ARGV[3])
  return done(ARGV[1])
end)
