#!lua
-- receipt, ms, ttl, session, owner, epoch, incarnation, seen epoch, seen owner, seen counter.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local row = as_seen(ARGV[4], ARGV[8], ARGV[9], ARGV[10])
  check_all(row, ARGV[3], {})
  check_incarnation(ARGV[7])

  local fields = {}
  add_lease(fields, ARGV[6], ARGV[5], 0)
  set(row, fields)
  keep(row, ARGV[3])
  return done(ARGV[1])
end)
