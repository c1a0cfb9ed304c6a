package indexer

import "github.com/tidwall/gjson"

// DecodeLogs decodes the events of logs, which must be valid JSON.
func (n *Network) DecodeLogs(logs []byte) ([]Event, error) {
	return n.decode(nil, gjson.ParseBytes(logs))
}
