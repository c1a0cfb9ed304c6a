package socket

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// queryOf reads the one parameter of subscribe and unsubscribe, by name or in a list. The
// error is the text of the node's.
func queryOf(params json.RawMessage) (query string, err error) {
	var list []json.RawMessage
	named := struct{ value json.RawMessage }{}
	if bytes.HasPrefix(bytes.TrimSpace(params), []byte("[")) {
		if err = json.Unmarshal(params, &list); err == nil && len(list) != 1 {
			raw := make([][]byte, len(list))
			for i := range list {
				raw[i] = list[i]
			}
			return "", fmt.Errorf("expected 1 parameters ([query]), got %d (%v)", len(list), raw)
		}
		if err == nil {
			named.value = list[0]
		}
	} else {
		var members map[string]json.RawMessage
		err = json.Unmarshal(params, &members)
		named.value = members["query"]
	}
	if err == nil && named.value != nil {
		err = json.Unmarshal(named.value, &query)
	}
	return query, err
}
