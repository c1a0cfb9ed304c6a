package devnet

import (
	"encoding/json"
	"fmt"
)

// A moduleVersion is a part of the node's program.
type moduleVersion struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

var modules = []moduleVersion{
	{"auth", "5"}, {"bank", "4"}, {"consensus", "1"}, {"distribution", "3"}, {"evidence", "1"},
	{"evmengine", "1"}, {"evmstaking", "1"}, {"genutil", "1"}, {"gov", "5"}, {"mint", "1"},
	{"runtime", ""}, {"slashing", "4"}, {"staking", "5"}, {"upgrade", "2"},
}

// moduleVersions answers with one version or all.
func moduleVersions(q *query) error {
	name := q.request.ModuleName
	var found []moduleVersion
	for _, m := range modules {
		if name == "" || m.Name == name {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("x/upgrade: QueryModuleVersions module %s not found: module version not found", name)
	}
	list, err := json.Marshal(found)
	q.textf(`{"module_versions":%s}`, list)
	return err
}

// appliedPlan answers with when an upgrade happened: nothing for an unknown one.
func appliedPlan(q *query) error {
	if q.http.PathValue("name") == "horace" && q.height >= 100 {
		q.text(`{"height":"100"}`)
	} else {
		q.text("{}")
	}
	return nil
}
