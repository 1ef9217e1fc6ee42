#!lua flags=allow-oom
-- '', ms, '', session, seen epoch, seen owner, seen counter, the first record that stays, addresses.
return run(function()
  local row = as_copy(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
  check_types(row.id, {'records'})
  typed(key('chunks', row.family), 'hash')

  for _, seq in ipairs(redis.call('HKEYS', key('records', row.id))) do
    if tonumber(seq) < tonumber(ARGV[8]) then
      redis.call('HDEL', key('records', row.id), seq)
    end
  end
  put('HDEL', key('chunks', row.family), {9, #ARGV})
  return {'ok'}
end)
