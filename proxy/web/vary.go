package web

import "maps"

// setVary names the request headers that choose between answers of one URL: those of the
// interface, which are few texts, and our own.
func (rs *responder) setVary(h *headers, own string, session bool) {
	of := varying{own, session}
	known := rs.varies.Load()
	if known == nil || (*known)[of] == "" {
		known = rs.learnVary(known, of)
	}
	h.set("Vary", (*known)[of])
}

// learnVary makes a text that is met for the first time. Where others are made at the same time, one of
// them may be made again.
func (rs *responder) learnVary(known *map[varying]string, of varying) *map[varying]string {
	more := map[varying]string{of: rs.vary(of)}
	if known != nil {
		maps.Copy(more, *known)
	}
	rs.varies.Store(&more)
	return &more
}

// varying is what a value of Vary depends on.
type varying struct {
	own     string
	session bool
}

func (rs *responder) vary(of varying) string {
	text := "Accept-Encoding"
	if of.own != "" {
		text = of.own + ", " + text
	}
	if of.session {
		text += ", " + SessionHeader
	}
	if rs.byOrigin {
		text += ", Origin"
	}
	return text
}
