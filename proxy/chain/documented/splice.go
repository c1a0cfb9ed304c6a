package documented

// A splicer edits a text in place of re-encoding it: whatever is not replaced
// leaves byte for byte as it came. Edits are made from left to right.
type splicer struct {
	src  string
	out  []byte
	done int // how much of src is in out, or was replaced

	grows bool // out became longer than the result may be, and is not added to any more
}

// replace puts text where src[from:to] was; from == to inserts.
func (s *splicer) replace(from, to int, text string) {
	if len(s.out) > longest(len(s.src)) {
		s.grows = true
		return
	}
	s.out = append(append(s.out, s.src[s.done:from]...), text...)
	s.done = to
}

// bytes ends the editing.
func (s *splicer) bytes() []byte {
	return append(s.out, s.src[s.done:]...)
}
