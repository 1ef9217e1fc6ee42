#!lua flags=no-writes
-- Told: the layout of the place and its identity, or nothing if there is none yet; and the commands that our user may not
-- give here.
return run(function()
  typed(HOUSE, 'hash')
  local name, told = key('session', 'x'), {'ok', unpack(redis.call('HMGET', HOUSE, 'layout', 'identity'))}
  for _, command in ipairs({
    {'HSET', name, 'f', 'v'}, {'HSETNX', name, 'f', 'v'}, {'HINCRBY', name, 'f', 1}, {'HDEL', name, 'f'},
    {'HGET', name, 'f'}, {'HMGET', name, 'f'}, {'HGETALL', name}, {'HEXISTS', name, 'f'}, {'HKEYS', name},
    {'HSTRLEN', name, 'f'}, {'SADD', name, 'm'}, {'SREM', name, 'm'}, {'SISMEMBER', name, 'm'}, {'SMEMBERS', name},
    {'SRANDMEMBER', name, 1}, {'ZADD', name, 1, 'm'}, {'ZREM', name, 'm'}, {'ZRANGEBYLEX', name, '-', '+'},
    {'ZRANGEBYSCORE', name, 0, 1}, {'ZREVRANGE', name, 0, 1}, {'GET', name}, {'SET', name, 'v'}, {'EXISTS', name},
    {'TYPE', name}, {'UNLINK', name}, {'PERSIST', name}, {'PEXPIREAT', name, 1}, {'PTTL', name}, {'TIME'},
  }) do
    if not redis.acl_check_cmd(unpack(command)) then
      table.insert(told, command[1])
    end
  end
  return told
end)
