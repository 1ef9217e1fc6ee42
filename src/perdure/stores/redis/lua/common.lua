-- What every script begins with. All it may look at has the one hash tag of its place, so it works on a cluster, too.
--
-- Redis does not undo a script that fails: each of them looks and refuses first, and only then writes. Asking for the
-- type of a key is part of that. The key that scripts are given is never there: so while a cluster moves the slot, where
-- some keys are and others not, it runs none of them.

local PLACE = KEYS[1]
local LAYOUT = '1'
local SLICE = 4000 -- arguments of one command: Lua's stack has room for about twice as many
local HEADER = 49 -- bytes of a stored record before its body: epoch, kind, time, chain digest
local CHAIN = 18 -- where in them the chain digest begins
local OWN = {
  records = 'hash', points = 'hash', keyframes = 'hash', marks = 'zset', inbox = 'hash', sent = 'set', forks = 'set',
}
local SHARED = {chunks = 'hash', kin = 'set'}
local FIELDS = {'family', 'epoch', 'owner', 'counter', 'seq', 'chain', 'tick', 'sent', 'base', 'seam', 'ttl', 'expires'}
local NUMBERS = {
  epoch = true, counter = true, seq = true, tick = true, sent = true, seam = true, ttl = true, expires = true,
}

local function key(kind, id)
  return PLACE .. ':' .. kind .. ':' .. id
end

local SESSIONS, EXPIRING, ERASED, HOUSE =
  PLACE .. ':sessions', PLACE .. ':expiring', PLACE .. ':erased', PLACE .. ':place'

local function text(number)
  return string.format('%.0f', number)
end

local function refuse(...)
  error({verdict = {...}})
end

-- Does the work. What it refuses is the answer, and so is an error of the server, which it must meet before it writes.
local function run(work)
  local done, told = pcall(work)
  if done then
    return told
  elseif type(told) == 'table' then
    return told.verdict or told
  end
  error(told)
end

local function typed(name, expected)
  local found = redis.call('TYPE', name).ok
  if found ~= 'none' and found ~= expected then
    refuse('damage', name, found)
  end
end

local function number(name, field, value)
  if value and not (string.find(value, '^%d+$') and #value < 19) then
    refuse('damage', name, field)
  end
end

local function row_of(id)
  local name = key('session', id)
  local found = redis.pcall('HMGET', name, unpack(FIELDS))
  if found.err then
    typed(name, 'hash')
    error(found)
  elseif not found[1] then
    return nil
  end
  local row = {id = id}
  for place, field in ipairs(FIELDS) do
    row[field] = found[place]
    if NUMBERS[field] then
      number(name, field, found[place])
    end
  end
  if not (row.epoch and row.owner and row.counter and row.seq and row.sent) or (row.base and not row.seam) then
    refuse('damage', name, 'row')
  end
  return row
end

local function is_erased(id)
  return redis.call('SISMEMBER', ERASED, redis.sha1hex(id)) == 1
end

local function session(id)
  local row = row_of(id)
  if not row then
    refuse(is_erased(id) and 'erased' or 'unknown', id)
  end
  return row
end

-- The runs that a session's log is made of, the oldest first: the records after `after` up to `last` are of `id`.
local function runs_of(row)
  local runs, seam = {{id = row.id, last = tonumber(row.seq)}}, row.seam
  local base = row.base
  while base do
    runs[1].after = tonumber(seam)
    table.insert(runs, 1, {id = base, last = tonumber(seam)})
    typed(key('session', base), 'hash')
    local found = redis.call('HMGET', key('session', base), 'family', 'base', 'seam')
    if not found[1] or (found[2] and tonumber(found[3]) >= tonumber(seam)) then
      refuse('base', row.id, base)
    end
    base, seam = found[2], found[3]
  end
  runs[1].after = 0
  return runs
end

local function lease_of(row)
  return row.id, row.epoch, row.owner, row.counter
end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
