#!lua flags=allow-oom
-- '', ms, '', session.
return run(function()
  local id = ARGV[4]
  local row = row_of(id)
  if not row then
    if is_erased(id) then
      return {'ok'}
    end
    refuse('unknown', id)
  end
  check_all(row, '')
  local forks = forks_of(id)
  if #forks > 0 then
    refuse('forks', id, unpack(forks, 1, math.min(#forks, 100)))
  end

  redis.call('SADD', ERASED, redis.sha1hex(id))
  remove(row)
  tell(id)
  return {'ok'}
end)
