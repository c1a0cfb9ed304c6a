package web

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// appendStatusLine appends the first line of an answer.
func appendStatusLine(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	return append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
}

// A dateText is a time as the Date header has it, which is another one each
// second.
type dateText struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dateText]

// appendDate appends the time as the Date header has it.
func appendDate(b []byte, t time.Time) []byte {
	d := lastDate.Load()
	if second := t.Unix(); d == nil || d.second != second {
		d = &dateText{second, t.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return append(b, d.text...)
}
