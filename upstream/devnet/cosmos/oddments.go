package cosmos

import (
	"encoding/hex"
	"fmt"

	"github.com/tidwall/gjson"
)

// fixed always answers the same; failing always fails the same way.
func fixed(body string) handler { return func(*query) (string, error) { return body, nil } }
func failing(err error) handler { return func(*query) (string, error) { return "", err } }

// evidenceOf finds none.
func evidenceOf(q *query) (string, error) {
	if _, err := hex.DecodeString(q.args["hash"]); err != nil {
		return "", fail(unknown, "invalid evidence hash: %v", err)
	}
	return "", fail(notFound, "evidence %s not found", q.args["hash"])
}

// memberOf is the one in the list of a document that has a name; "" for none.
func memberOf(path, list, field, name string) string {
	for _, item := range gjson.Get(documents()[path], list).Array() {
		if item.Get(field).String() == name {
			return item.Raw
		}
	}
	return ""
}

func nftOf(q *query) (string, error) {
	class, id := q.args["class_id"], q.args["id"]
	if one := memberOf("/cosmos/nft/v1beta1/nfts?class_id="+class, "nfts", "id", id); one != "" {
		return fmt.Sprintf(`{"nft":%s}`, one), nil
	}
	return "", fail(unknown, "codespace nft code 6: nft does not exist: not found nft: class: %s, id: %s", class, id)
}

func moduleVersions(q *query) (string, error) {
	name, given := q.args["module_name"]
	if !given {
		return document(q)
	}
	if one := memberOf(q.path, "module_versions", "name", name); one != "" {
		return fmt.Sprintf(`{"module_versions":[%s]}`, one), nil
	}
	return "", fail(unknown, "codespace upgrade code 2: module version not found: x/upgrade: QueryModuleVersions module %s not found", name)
}
