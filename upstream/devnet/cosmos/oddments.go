package cosmos

import (
	"encoding/hex"
	"fmt"

	"github.com/tidwall/gjson"
)

// evidenceOf finds none.
func evidenceOf(q *query) ([]byte, error) {
	if _, err := hex.DecodeString(q.args["hash"]); err != nil {
		return nil, fail(unknown, "invalid evidence hash: %v", err)
	}
	return nil, fail(notFound, "evidence %s not found", q.args["hash"])
}

func nftOf(q *query) ([]byte, error) {
	class, id := q.args["class_id"], q.args["id"]
	list := documents()["/cosmos/nft/v1beta1/nfts?class_id="+class]
	for _, n := range gjson.Get(list, "nfts").Array() {
		if n.Get("id").String() == id {
			return fmt.Appendf(nil, `{"nft":%s}`, n.Raw), nil
		}
	}
	return nil, fail(unknown, "codespace nft code 6: nft does not exist: not found nft: class: %s, id: %s", class, id)
}

// unapplied answers for a plan that was never carried out.
func unapplied(*query) ([]byte, error) { return []byte(`{"height":"0"}`), nil }

func moduleVersions(q *query) ([]byte, error) {
	name, given := q.args["module_name"]
	if !given {
		return document(q)
	}
	for _, m := range gjson.Get(documents()[q.path], "module_versions").Array() {
		if m.Get("name").String() == name {
			return fmt.Appendf(nil, `{"module_versions":[%s]}`, m.Raw), nil
		}
	}
	return nil, fail(unknown, "codespace upgrade code 2: module version not found: x/upgrade: QueryModuleVersions module %s not found", name)
}
