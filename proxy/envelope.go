package proxy

import (
	"encoding/json"
	"strconv"
)

const jsonType = "application/json"

// errorEnvelope is the body of an answer that says no: code is the HTTP
// status, msg is empty, error says why.
func errorEnvelope(status int, text string) []byte {
	quoted, _ := json.Marshal(text) // a string always encodes
	b := make([]byte, 0, len(quoted)+40)
	b = strconv.AppendInt(append(b, `{"code":`...), int64(status), 10)
	b = append(append(b, `,"msg":{},"error":`...), quoted...)
	return append(b, "}\n"...)
}
