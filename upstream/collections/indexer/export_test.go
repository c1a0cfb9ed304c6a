package indexer

import "github.com/tidwall/gjson"

// DecodeLogs makes events of logs: valid JSON, of which an array is expected.
func (n *Network) DecodeLogs(logs []byte) ([]Event, error) {
	return n.decode(nil, gjson.ParseBytes(logs))
}
