package devnet

import (
	"fmt"
	"strings"
)

// modules are the parts of the node's program.
var modules = []string{
	`{"name":"auth","version":"5"}`, `{"name":"bank","version":"4"}`, `{"name":"consensus","version":"1"}`, `{"name":"distribution","version":"3"}`,
	`{"name":"evidence","version":"1"}`, `{"name":"evmengine","version":"1"}`, `{"name":"evmstaking","version":"1"}`, `{"name":"genutil","version":"1"}`,
	`{"name":"gov","version":"5"}`, `{"name":"mint","version":"1"}`, `{"name":"runtime"}`, `{"name":"slashing","version":"4"}`,
	`{"name":"staking","version":"5"}`, `{"name":"upgrade","version":"2"}`,
}

// moduleVersions answers with one version or all.
func moduleVersions(q *query) error {
	name := q.request.ModuleName
	found := where(modules, func(m string) bool { return name == "" || strings.HasPrefix(m, `{"name":"`+name+`"`) })
	if len(found) == 0 {
		return fmt.Errorf("x/upgrade: QueryModuleVersions module %s not found: module version not found", name)
	}
	return q.object("module_versions", func() { list(q, found, "", func(m string) { q.text(m) }) })
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
