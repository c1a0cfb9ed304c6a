package cosmos

import "github.com/tipcache/tipcache/proxy/chain"

// An index finds the row of a path.
type index struct {
	rows     []*matcher            // all of them, in order
	byModule map[string][]*matcher // what may fit the paths of a module, by their first segments
	general  []*matcher            // what may fit any other path
}

// moduleDepth is how many segments name a module: cosmos, bank, v1beta1.
const moduleDepth = 3

// newIndex compiles rows. The first that fits a path is its row, and the last fits whatever comes.
func newIndex(rows []chain.Row) (*index, error) {
	x := &index{byModule: map[string][]*matcher{}}
	for _, r := range rows {
		m, err := compile(r)
		if err != nil {
			return nil, err
		}
		m.place = len(x.rows)
		x.rows = append(x.rows, m)
		x.byModule[m.module()] = nil
	}
	for module := range x.byModule {
		for _, m := range x.rows {
			if own := m.module(); own == module || own == "" {
				x.byModule[module] = append(x.byModule[module], m)
			}
		}
	}
	x.general = x.byModule[""]
	return x, nil
}

// module is what the first segments of a row name, "" if it names less.
func (m *matcher) module() string {
	if len(m.path) < moduleDepth {
		return ""
	}
	module := ""
	for _, s := range m.path[:moduleDepth] {
		if s.literal == "" {
			return ""
		}
		module += "/" + s.literal
	}
	return module
}

// find is the row of a decoded path, which has been cut at its slashes.
func (x *index) find(path string, parts []string) *matcher {
	rows := x.general
	if len(parts) >= moduleDepth {
		module := len(parts[0]) + len(parts[1]) + len(parts[2]) + moduleDepth
		if found, ok := x.byModule[path[:module]]; ok {
			rows = found
		}
	}
	for _, m := range rows {
		if m.matches(parts) {
			return m
		}
	}
	return rows[len(rows)-1]
}
