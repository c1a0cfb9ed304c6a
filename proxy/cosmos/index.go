package cosmos

// An index finds the row of a path.
type index struct {
	rows     []*matcher            // all of them, in order
	own      []*matcher            // those of the operator, which come first
	byModule map[string][]*matcher // by the first three segments
	general  []*matcher            // what says less than three
}

// moduleDepth is how many segments name a module: cosmos, bank, v1beta1.
const moduleDepth = 3

// newIndex compiles rows. Among those of a kind the first that fits a path is its row.
func newIndex(own, builtIn []Row) (*index, error) {
	x := &index{byModule: map[string][]*matcher{}}
	for i, rows := range [][]Row{own, builtIn} {
		for _, r := range rows {
			m, err := compile(r)
			if err != nil {
				return nil, err
			}
			m.place = len(x.rows)
			x.rows = append(x.rows, m)
			switch module, ok := m.module(); {
			case i == 0:
				x.own = append(x.own, m)
			case ok:
				x.byModule[module] = append(x.byModule[module], m)
			default:
				x.general = append(x.general, m)
			}
		}
	}
	return x, nil
}

// module is what the first segments of a row name; not ok if it names less.
func (m *matcher) module() (string, bool) {
	if len(m.path) < moduleDepth {
		return "", false
	}
	module := ""
	for _, s := range m.path[:moduleDepth] {
		if s.literal == "" {
			return "", false
		}
		module += "/" + s.literal
	}
	return module, true
}

// find is the row of a decoded path, which has been cut at its slashes. The generic row
// fits whatever comes.
func (x *index) find(path string, parts []string) *matcher {
	for _, m := range x.own {
		if m.matches(parts) {
			return m
		}
	}
	if len(parts) > moduleDepth {
		module := len(parts[0]) + len(parts[1]) + len(parts[2]) + moduleDepth
		for _, m := range x.byModule[path[:module]] {
			if m.matches(parts) {
				return m
			}
		}
	}
	for _, m := range x.general {
		if m.matches(parts) {
			return m
		}
	}
	return x.general[len(x.general)-1]
}
