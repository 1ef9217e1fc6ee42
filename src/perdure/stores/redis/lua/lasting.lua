-- How long things last. All that a session has expires at one instant, and not before what goes on from it.

local function expire(name, at)
  if at then
    redis.call('PEXPIREAT', name, text(at))
  else
    redis.call('PERSIST', name)
  end
end

local function session_lasts(id, at)
  if at then
    redis.call('HSET', key('session', id), 'expires', text(at))
    redis.call('ZADD', EXPIRING, text(at), id)
  else
    redis.call('HDEL', key('session', id), 'expires')
    redis.call('ZREM', EXPIRING, id)
  end
  expire(key('session', id), at)
  for kind in pairs(OWN) do
    expire(key(kind, id), at)
  end
end

local function set_family(family, at)
  redis.call('HSET', key('family', family), 'expires', at and text(at) or 'never')
  expire(key('family', family), at)
  for kind in pairs(SHARED) do
    expire(key(kind, family), at)
  end
end

-- What a family shares lasts at least so long; nil: for ever.
local function family_lasts(family, at)
  local lasts = redis.call('HGET', key('family', family), 'expires')
  if lasts == 'never' or (lasts and at and tonumber(lasts) >= at) then
    return
  end
  set_family(family, at)
end

-- What a family shares lasts as long as the session of it that lasts longest; it goes with the last of them.
local function refit(family)
  local members, longest = kin_of(family), 0
  if #members == 0 then
    redis.call('UNLINK', key('family', family), key('chunks', family), key('kin', family))
    return
  end
  for _, id in ipairs(members) do
    local expires = redis.call('HGET', key('session', id), 'expires')
    longest = expires and longest and math.max(longest, tonumber(expires) or 0)
  end
  set_family(family, longest or nil)
end

-- Removes all that a session has, and what its family shares with the last of it.
local function remove(row)
  redis.call('UNLINK', key('session', row.id))
  for kind in pairs(OWN) do
    redis.call('UNLINK', key(kind, row.id))
  end
  redis.call('ZREM', SESSIONS, row.id)
  redis.call('ZREM', EXPIRING, row.id)
  redis.call('SREM', key('kin', row.family), row.id)
  if row.base then
    redis.call('SREM', key('forks', row.base), row.id)
  end
  refit(row.family)
end

-- Those that must last as long as this session: what it goes on from, and who founded its family, whose name it has.
local function elders_of(row)
  local found = {}
  if row.base then
    for _, run in ipairs(runs_of(row)) do
      found[run.id] = true
    end
  end
  local founder = key('session', row.family)
  typed(founder, 'hash')
  if redis.call('HGET', founder, 'family') == row.family then
    found[row.family] = true
  end
  found[row.id] = nil
  return found
end

-- Before anything is written to this session: what the write touches is as it must be. `kinds` are its keys; a session
-- that comes or goes has all of them.
local function check_all(row, ttl, kinds)
  local lasts = row.ttl or row.expires or ttl ~= ''
  if lasts or not kinds then
    check_shared(row.family)
  end
  if not kinds then
    kinds = {}
    for kind in pairs(OWN) do
      table.insert(kinds, kind)
    end
    check_front(row)
    if row.base then
      typed(key('forks', row.base), 'set')
    end
  end
  check_types(row.id, kinds)
  row.elders = lasts and elders_of(row) or {}
end

local function elders_last(row, at)
  for id in pairs(row.elders) do
    local expires = redis.call('HGET', key('session', id), 'expires')
    if expires and (not at or (tonumber(expires) or 0) < at) then
      session_lasts(id, at)
    end
  end
end

-- Keys that this script made last as long as the others.
local function join(id, family)
  local expires = redis.call('HGET', key('session', id), 'expires')
  if expires then
    for kind in pairs(OWN) do
      if redis.call('PTTL', key(kind, id)) == -1 then
        expire(key(kind, id), expires)
      end
    end
  end
  local lasts = redis.call('HGET', key('family', family), 'expires')
  if lasts and lasts ~= 'never' then
    for kind in pairs(SHARED) do
      if redis.call('PTTL', key(kind, family)) == -1 then
        expire(key(kind, family), lasts)
      end
    end
  end
end

-- `at`, or later if a session that goes on from this one or is in the family that it founded needs it; nil: for ever.
local function needed(row, at)
  local followers = row.id == row.family and kin_of(row.family) or forks_of(row.id)
  for _, id in ipairs(followers) do
    local expires = redis.call('HGET', key('session', id), 'expires')
    if id ~= row.id and not expires then
      return nil
    end
    at = math.max(at, id ~= row.id and tonumber(expires) or 0)
  end
  return at
end

-- After a write: the session lasts `ttl` ms from now ('' as it is set to, '0' for ever), or up to a hundredth more, so
-- that not every write has to move it. `row` is as it was before; `is_new` if it was not there.
local function keep(row, ttl, is_new)
  local is_moved = ttl ~= '' and (row.ttl or '0') ~= ttl
  if is_moved then
    row.ttl = ttl ~= '0' and ttl
  end
  if (is_moved or is_new) and row.ttl then
    redis.call('HSET', key('session', row.id), 'ttl', row.ttl)
  elseif is_moved then
    redis.call('HDEL', key('session', row.id), 'ttl')
  end
  if not row.ttl then
    if is_new or row.expires then
      session_lasts(row.id, nil)
      elders_last(row, nil)
      family_lasts(row.family, nil)
    end
    return
  end
  local least = now_ms() + tonumber(row.ttl)
  local at = least + math.ceil(tonumber(row.ttl) / 100)
  if not is_new and (is_moved or not row.expires) then
    at = needed(row, at)
  elseif row.expires and tonumber(row.expires) >= least then
    at = nil
  end
  if at then
    session_lasts(row.id, at)
    elders_last(row, at)
    if is_moved and not is_new then
      refit(row.family)
    else
      family_lasts(row.family, at)
    end
  end
  join(row.id, row.family)
end

-- A few names of sessions that have expired leave the lists: each that comes takes several away.
local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', text(now_ms()), 'LIMIT', 0, 16)) do
    if redis.call('EXISTS', key('session', id)) == 0 then
      redis.call('ZREM', EXPIRING, id)
      redis.call('ZREM', SESSIONS, id)
    end
  end
end

local function sweep_set(name, field, expected)
  for _, id in ipairs(redis.call('SRANDMEMBER', name, 4)) do
    if redis.pcall('HGET', key('session', id), field) ~= expected then
      redis.call('SREM', name, id)
    end
  end
end

-- A session that was not there, in its family. `row` has what is known of it.
local function add(row, fields, ttl)
  sweep()
  to_front(row, fields)
  table.insert(fields, 'sent')
  table.insert(fields, 0)
  set(row, fields)
  settle()
  redis.call('SADD', key('kin', row.family), row.id)
  sweep_set(key('kin', row.family), 'family', row.family)
  if row.base then
    redis.call('SADD', key('forks', row.base), row.id)
    sweep_set(key('forks', row.base), 'base', row.base)
  end
  keep(row, ttl, true)
  if row.base then
    join(row.base, row.family)
  end
end
