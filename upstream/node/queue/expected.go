package queue

import "time"

// work is how long an endpoint takes for the requests, one after the other.
func (n *load) work(l *limit) (sum float64) {
	for c, some := range n {
		sum += float64(some) * l.weight(Cost(c)) * float64(l.recent[c])
	}
	return sum
}

// Expected is how long it is likely to take until a request that comes now is answered: the
// work ahead of its turn, as much of it at a time as the limit allows, and then what a read
// of its cost took lately. Where no read of its cost has ended for longer, it is that.
func (s *Slots) Expected(r Request) time.Duration {
	r.Cost = r.Cost.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.limit.recent[r.Cost]
	if r.Cost == Scan {
		wait += s.behindScans(r)
	} else {
		wait += s.behind(r)
	}
	if s.taken[r.Cost] > 0 {
		wait = max(wait, time.Since(s.progress[r.Cost]))
	}
	return wait
}

// behindScans is how long the scans take that wait, and those under way, which are half done.
func (s *Slots) behindScans(r Request) time.Duration {
	if s.freeScans > 0 {
		return s.behind(r)
	}
	ahead := s.foreground.waits[Scan]
	if r.Background {
		ahead += s.background.waits[Scan]
	}
	return s.limit.recent[Scan] * time.Duration(2*ahead+s.taken[Scan]) / time.Duration(2*max(s.taken[Scan], 1))
}

// behind is how long the work before the turn of a request takes: a part of what waits, and
// half of what is under way. Scans delay no other request but by the slots that they take.
func (s *Slots) behind(r Request) time.Duration {
	waits, taken := s.foreground.waits, s.taken
	for c, some := range s.background.waits {
		waits[c] += some
	}
	waits[Scan], taken[Scan] = 0, 0
	waiting := waits.requests()
	if waiting == 0 && s.fits(r.Cost) {
		return 0
	}
	work := taken.work(&s.limit) / 2
	if waiting > 0 {
		work += waits.work(&s.limit) * float64(min(s.turns(r), waiting)) / float64(waiting)
	}
	slots := s.limit.now - float64(s.taken[Scan])*s.limit.weight(Scan)
	return time.Duration(work / max(slots, weights[Cheap]))
}

// turns is how many of the waiting requests have their turns before a request.
func (s *Slots) turns(r Request) int {
	if r.Background {
		behind := s.background.ahead(r)
		return behind + min(s.foreground.waits.requests(), foregroundRun*(behind+1))
	}
	front := s.foreground.ahead(r)
	return front + min(s.background.waits.requests(), front/foregroundRun)
}

// ahead is how many turns of a queue come before that of one more request. All lines count as if as
// much of them came before it as of its client's, to look at none.
func (q *queue) ahead(r Request) int {
	l, fresh := q.lines[r.Client], q.fresh.Len()
	if l == nil {
		return min(fresh+fresh/freshRun, q.waits.requests())
	}
	own, others := l.before(r.Miss), fresh+q.served.Len()-1
	return min(own+(own+1)*others, q.waits.requests())
}

// before is how many requests of a line have their turns before one more.
func (l *line) before(miss bool) int {
	misses, others := l.misses.Len(), l.waiters.Len()
	if miss {
		return misses + min(misses/missRun, others)
	}
	return others + min(missRun*(others+1), misses)
}
