-- What every script that writes has, too: conditions, batches, and how long things last.

-- Before anything is written: what a write to this session touches is of its type, or is not there.
local function check_types(id, kinds)
  for _, kind in ipairs(kinds) do
    typed(key(kind, id), OWN[kind])
  end
end

-- The same of what all sessions share, for a session that comes, goes, or lasts only for a while.
local function check_shared(family)
  for kind, expected in pairs(SHARED) do
    typed(key(kind, family), expected)
  end
  typed(key('family', family), 'hash')
  local lasts = redis.call('HGET', key('family', family), 'expires')
  if lasts ~= 'never' then
    number(key('family', family), 'expires', lasts)
  end
  typed(SESSIONS, 'zset')
  typed(EXPIRING, 'zset')
  typed(ERASED, 'set')
end

-- What a call with this receipt came to, if it was done already: its answer was lost. A call that is done leaves one.
local function before(receipt)
  local told = receipt ~= '' and redis.call('GET', key('receipt', receipt))
  return told and cmsgpack.unpack(told)
end

local function done(receipt, ...)
  local told = {'ok', ...}
  if receipt ~= '' then
    redis.call('SET', key('receipt', receipt), cmsgpack.pack(told), 'PX', ARGV[2])
  end
  return told
end

local function check_new(id)
  if is_erased(id) then
    refuse('erased', id)
  elseif row_of(id) then
    refuse('exists', id)
  end
end

local function held(id, epoch)
  local row = session(id)
  if epoch == '' then
    if row.owner ~= '' then
      refuse('held_by', lease_of(row))
    end
  elseif row.epoch ~= epoch or row.owner == '' then
    refuse('fenced', lease_of(row))
  end
  return row
end

local function as_seen(id, epoch, owner, counter)
  local row = session(id)
  if row.epoch ~= epoch or row.owner ~= owner or row.counter ~= counter then
    refuse('held', lease_of(row))
  end
  return row
end

-- A copy of a session that is kept elsewhere: it says where it began, and has no base.
local function as_copy(id, epoch, owner, counter)
  local row = row_of(id)
  if not row then
    refuse('held', id, '0', '', '0')
  elseif row.base or not row.seam or row.epoch ~= epoch or row.owner ~= owner or row.counter ~= counter then
    refuse('held', lease_of(row))
  end
  return row
end

-- The log ends at `head`; if the caller knows the chain digest there, with that one; and its last record is there.
local function check_head(row, head, chain)
  if row.seq ~= head then
    refuse('conflict', row.id, row.seq)
  elseif chain ~= '' and row.chain ~= chain then
    refuse('other', row.id, row.seq)
  elseif tonumber(head) > tonumber(row.seam or 0) and redis.call('HEXISTS', key('records', row.id), head) == 0 then
    refuse('gone', row.id, head)
  end
end

-- What begins a session begins it in the place that the store was opened on, and not in what a loss has left of it.
local function check_place(identity)
  if redis.call('HGET', HOUSE, 'identity') ~= identity then
    refuse('lost')
  end
end

local function check_incarnation(number)
  local newest = redis.call('HGET', HOUSE, 'incarnation') or '0'
  if newest ~= number then
    refuse('incarnation', newest)
  end
end

local LISTS = {'records', 'points', 'keyframes', 'marks', 'inbox', 'chunks'}
local NOTHING = {1, 0}

-- A batch in the arguments: its end, chain, summary, incarnation, six lengths, and then what they count. `kinds` are
-- those that it has; of the inbox it has what is taken.
local function batch_at(place)
  local kinds, from = {}, place + 10
  local batch = {
    last = ARGV[place], chain = ARGV[place + 1], summary = ARGV[place + 2], incarnation = tonumber(ARGV[place + 3]),
    kinds = kinds,
  }
  for offset = 1, 6 do
    local kind, length = LISTS[offset], tonumber(ARGV[place + 3 + offset])
    if length == 0 then
      batch[kind] = NOTHING
    else
      local last = from + length - 1
      batch[kind] = {from, last}
      from = last + 1
      if OWN[kind] then
        kinds[#kinds + 1] = kind
      end
    end
  end
  batch.after = from
  return batch
end

local function each(range, work)
  for place = range[1], range[2] do
    work(ARGV[place], place)
  end
end

local function put(command, name, range)
  for from = range[1], range[2], SLICE do
    redis.call(command, name, unpack(ARGV, from, math.min(from + SLICE - 1, range[2])))
  end
end

local function check_chunks(family, batch)
  if batch.chunks[1] <= batch.chunks[2] then
    typed(key('chunks', family), 'hash')
  end
end

local function check_taken(id, batch)
  each(batch.inbox, function(number)
    if redis.call('HEXISTS', key('inbox', id), number) == 0 then
      refuse('taken', id, number)
    end
  end)
end

-- Writes all of a batch but the head. From here on nothing is refused.
local function insert(row, batch)
  put('HDEL', key('inbox', row.id), batch.inbox)
  put('HSET', key('chunks', row.family), batch.chunks)
  put('HSET', key('records', row.id), batch.records)
  put('HSET', key('points', row.id), batch.points)
  put('HSET', key('keyframes', row.id), batch.keyframes)
  put('ZADD', key('marks', row.id), batch.marks)
end

-- The fields of a session's row that a batch moves.
local function head_of(batch)
  local fields = {'seq', batch.last}
  if batch.chain ~= '' then
    table.insert(fields, 'chain')
    table.insert(fields, batch.chain)
  end
  if batch.summary ~= '' then
    table.insert(fields, 'summary')
    table.insert(fields, batch.summary)
  end
  return fields
end

-- Before a session moves to the front of listings. One that is there already costs nothing.
local function check_front(row)
  local tick = redis.call('HGET', HOUSE, 'tick')
  row.is_first = row.tick and row.tick == tick
  if not row.is_first then
    number(HOUSE, 'tick', tick)
    typed(SESSIONS, 'zset')
  end
end

local function to_front(row, fields)
  if row.is_first then
    return
  end
  local tick = redis.call('HINCRBY', HOUSE, 'tick', 1)
  redis.call('ZADD', SESSIONS, tick, row.id)
  table.insert(fields, 'tick')
  table.insert(fields, tick)
end

local function add_lease(fields, epoch, owner, counter)
  for _, value in ipairs({'epoch', epoch, 'owner', owner, 'counter', counter, 'moved', text(now_ms())}) do
    table.insert(fields, value)
  end
end

local function set(row, fields)
  redis.call('HSET', key('session', row.id), unpack(fields))
end

local function tell(id)
  redis.pcall('PUBLISH', key('written', id), '')
end

-- Those of a set of sessions that have this value in this field. The others have expired, and their ids may belong to
-- sessions by now that have nothing to do with it.
local function those(name, field, value)
  local found = {}
  for _, id in ipairs(redis.call('SMEMBERS', name)) do
    if redis.pcall('HGET', key('session', id), field) == value then
      table.insert(found, id)
    end
  end
  return found
end

local function kin_of(family)
  return those(key('kin', family), 'family', family)
end

-- Sessions that go on from a record of this one.
local function forks_of(id)
  return those(key('forks', id), 'base', id)
end

-- The place is made with the first thing in it.
local function settle()
  redis.call('HSETNX', HOUSE, 'layout', LAYOUT)
end

local function check_kin(family, range)
  local seen, count = {}, 0
  each(range, function(id)
    if not seen[id] then
      seen[id], count = true, count + 1
    end
  end)
  local found = kin_of(family)
  for _, id in ipairs(found) do
    if not seen[id] then
      refuse('joined', id)
    end
  end
  if #found ~= count then
    refuse('joined', family)
  end
end
