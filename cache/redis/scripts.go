package redis

// An entry is a hash with two fields, m for what changes from block to block
// and b for the body, and its lease a string that names the holder. Both keys
// carry the same hash tag, so they share a hash slot of a cluster.
//
// The scripts read the beginning of m, which is text for their sake:
//
//	1 <height> <read at> <expires> <etag> ...
//
// Times are microseconds, exact as doubles. What does not begin like that, or is
// no hash, is foreign: absent when asked for, overwritten when written to.

// acquireScript gives {state, m, b, milliseconds left, holder}. An entry that is not of the
// version that the caller has judged is given instead of the lease: freshness is
// judged by callers alone. b is left out if the caller has it already. A caller that did
// not get the reply may ask again with the same token and finds the lease its own; a
// lease without an expiry is none, and one that would last longer than the caller's is
// cut to the caller's: either no replica holds it, or its holder renews it. The lease of
// a holder that the caller does not believe is the caller's, too.
//
// KEYS: entry, lease. ARGV: version or nothing, token, lease in milliseconds,
// holder that is not believed or nothing.
const acquireScript = `
local m, state = redis.pcall('HGET', KEYS[1], 'm'), 'granted'
if type(m) == 'table' then m, state = false, 'foreign' end
if m and (ARGV[1] == '' or string.sub(m, 1, #ARGV[1]) ~= ARGV[1]) then
	local head, b = '^1 %d+ %d+ %d+ (%S+) ', false
	local etag = string.match(m, head)
	if not etag or etag ~= string.match(ARGV[1], head) then b = redis.call('HGET', KEYS[1], 'b') end
	return {'changed', m, b, 0, ''}
end
local left, holder = redis.call('PTTL', KEYS[2]), redis.pcall('GET', KEYS[2])
if type(holder) ~= 'string' then holder = '' end
if left > 0 and holder ~= ARGV[2] and (ARGV[4] == '' or holder ~= ARGV[4]) then
	if left > tonumber(ARGV[3]) then
		redis.call('PEXPIRE', KEYS[2], ARGV[3])
		left = tonumber(ARGV[3])
	end
	return {'busy', false, false, left, holder}
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {state, m, false, 0, ''}
`

// settleScript writes entries unless newer ones are there, gives the leases back that are still
// the caller's, and tells all replicas of it in one message. Of each entry it replies 'done', 'older'
// for one that is not newer, 'body' for one without b whose content is another than that in the store,
// of which nothing is done, or '!' and the error with which a write was refused (for want of memory): an
// error among replies is more than the client can read. A lease without an entry has an empty m and as b
// the mark by which the replicas are told, which is the reply, too; 'lost' is that of a lease that was
// not the caller's. Redis runs no script more often, and beginning one costs it as much as what is done
// for some entries. It refuses an HSET for want of memory only before a script's first write: so leases
// are given back after all entries are written, one that was refused gets no expiry, and what is foreign
// is overwritten, which needs memory, before it is deleted.
//
// KEYS: entry and lease, of each. ARGV: channel (empty in a Cluster: the caller tells, of a lease; nothing is
// told of entries that are saved without one), length of the longest b to be told (-1: no renewals are), where the key begins in the name of an entry; of each: m, b, expiry in
// milliseconds, token, highest height of an entry that is kept (0: any).
const settleScript = `
local call, match = redis.pcall, string.match
local channel, longest, from = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function write(entry, m, b, expiry, most)
	local old = call('HGET', entry, 'm') or ''
	if type(old) == 'table' then
		old = call('SET', entry, '')
		if old.err then return old end
		call('DEL', entry)
		old = ''
	end
	local h, r, etag = match(m, '^1 (%d+) (%d+) %d+ (%S+) ')
	local oh, orr, oetag = match(old, '^1 (%d+) (%d+) %d+ (%S+) ')
	if oh and (most == '0' or tonumber(oh) <= tonumber(most)) then
		local newer = tonumber(r) >= tonumber(orr)
		if h ~= oh and h ~= '0' and oh ~= '0' then newer = tonumber(h) > tonumber(oh) end
		if not newer then return 'older' end
	end
	local done
	if b ~= '' then
		done = call('HSET', entry, 'm', m, 'b', b)
	elseif etag == oetag then
		done = call('HSET', entry, 'm', m)
	else
		return 'body'
	end
	if type(done) == 'table' then return done end
	call('PEXPIRE', entry, expiry)
	return 'done'
end
local replies, told = {}, {'*'}
for i = 1, #KEYS, 2 do
	local at = (i - 1) / 2 * 5 + 4
	local m = ARGV[at]
	replies[#replies + 1] = m ~= '' and write(KEYS[i], m, ARGV[at + 1], ARGV[at + 2], ARGV[at + 4])
end
for n, reply in ipairs(replies) do
	local entry, lease, at = KEYS[2 * n - 1], KEYS[2 * n], (n - 1) * 5 + 4
	local m, b = ARGV[at], ARGV[at + 1]
	local held = reply ~= 'body' and call('GET', lease) == ARGV[at + 3]
	if held then call('DEL', lease) end
	reply = reply or held and b or 'lost'
	replies[n] = type(reply) == 'table' and '!' .. reply.err or reply
	if channel ~= '' and reply ~= 'body' and reply ~= 'lost' then
		if reply ~= 'done' or longest < 0 then
			m, b = (type(reply) == 'table' or reply == '-') and '-' or '+', ''
		elseif #b > longest then
			b = ''
		end
		local key, n = string.sub(entry, from, -2), #told
		told[n + 1], told[n + 2], told[n + 3], told[n + 4] = #key .. ' ' .. #m .. ' ' .. #b .. ' ', key, m, b
	end
end
if #told > 1 then redis.call('PUBLISH', channel, table.concat(told)) end
return replies
`

// keepScript lengthens a lease that is still the caller's.
//
// KEYS: lease. ARGV: token, lease in milliseconds.
const keepScript = `
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
`
