package dialect

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
)

// ReadPath returns the canonical form of a decoded path that matches the pattern.
func (p *Parser) ReadPath(path string) (canonical string, err error) {
	if p.manner == Gateway {
		path = DropColon(path)
	}
	var buf [maxParts]string
	parts := split(buf[:0], path)
	for i, part := range parts {
		if part == "." || part == ".." { // segments that stand for another path
			return "", &failure.Failure{Status: http.StatusNotFound, Public: "no such path: " + web.Short(string(AppendPath(nil, "/"+strings.Join(parts[:i+1], "/"))))}
		}
	}
	changed := false
	for i, s := range p.pattern {
		if s.Literal != "" {
			continue
		}
		if s.Rest {
			parts = append(parts[:i], strings.Join(parts[i:], "/"))
		}
		given := parts[i]
		if parts[i], err = p.path[i].inPath(given); err != nil {
			return "", err
		}
		changed = changed || parts[i] != given
	}
	if !changed {
		return path, nil
	}
	return "/" + strings.Join(parts, "/"), nil
}

// inPath returns the canonical form of a variable. The value that means the same as none is written out, because an
// empty segment is a different path.
func (f *Field) inPath(value string) (canonical string, err error) {
	canonical, ok := f.Read(value)
	if canonical == "" {
		canonical = cmp.Or(f.Zero, value)
		ok = ok && (f.Zero != "" || value == "")
	}
	if !ok {
		return "", f.Malformed(value)
	}
	return canonical, nil
}

// heightName is the name of the field that is a block's height.
const heightName = "height"

// namesBlock reports whether a request in canonical form names a block by a positive number. Nodes read some other heights as
// the newest block, such as "latest". In a row that calls no field height, every variable of the path must be a positive number,
// because any of them may be the height.
func (p *Parser) namesBlock(path string, v Values) (named bool) {
	isHeight := func(f Field) bool { return f.Name == heightName }
	inPath := slices.ContainsFunc(p.path, isHeight)
	if !inPath && slices.ContainsFunc(p.Fields, isHeight) {
		return isPositive(v.Get(heightName))
	}
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", len(p.pattern))
	for i, s := range p.pattern {
		if s.Literal != "" || inPath && !isHeight(p.path[i]) {
			continue
		}
		if named = isPositive(parts[i]); !named {
			return false
		}
	}
	return named
}

func isPositive(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > 0
}

// unreserved are the characters that stand for themselves anywhere in a URL, in addition to letters and digits.
const unreserved = "-_.~"

// AppendPath escapes a path, including the characters that have a meaning in a key: ?, @ and *.
func AppendPath(dst []byte, path string) []byte { return appendEscaped(dst, path, unreserved+"/:=,") }

// appendEscaped percent-encodes all characters except letters, digits and those in safe.
func appendEscaped(dst []byte, s, safe string) []byte {
	for _, c := range []byte(s) {
		if 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(safe, c) >= 0 {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return dst
}
