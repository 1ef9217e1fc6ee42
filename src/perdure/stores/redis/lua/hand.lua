#!lua
-- receipt, ms, ttl, session, seen epoch, seen owner, seen counter, epoch, owner, counter.
return run(function()
  local told = before(ARGV[1])
  if told then
    return told
  end
  local row = as_copy(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
  check_all(row, ARGV[3], {})

  local fields = {}
  add_lease(fields, ARGV[8], ARGV[9], ARGV[10])
  set(row, fields)
  keep(row, ARGV[3])
  return done(ARGV[1])
end)
