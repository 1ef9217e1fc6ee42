#!lua flags=allow-oom
-- '', ms, '', session, seen epoch, seen owner, seen counter, head.
return run(function()
  if not row_of(ARGV[4]) then
    return {'ok'}
  end
  local row = as_copy(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
  check_all(row, '')
  if row.seq ~= ARGV[8] then
    refuse('conflict', row.id, row.seq)
  end

  remove(row)
  return {'ok'}
end)
