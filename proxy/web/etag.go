package web

import (
	"strings"

	"github.com/tipcache/tipcache/cache/codings"
)

// tagEnds end the validator of a body in each coding. In each it is another
// text of bytes, so it needs another strong validator.
var tagEnds = [len(preferred)]string{codings.Identity: `"`, codings.Gzip: `-gzip"`, codings.Zstd: `-zstd"`, codings.Brotli: `-br"`}

// setTag sets the validator of the content in a coding.
func (h *headers) setTag(etag string, coding codings.Coding) {
	if coding == codings.Identity {
		h.set("Etag", etag)
		return
	}
	text := append(h.begin("Etag"), strings.TrimSuffix(etag, `"`)...)
	h.finish(append(text, tagEnds[coding]...))
}

// clientHas finds out from the values of If-None-Match whether the client has the content, and in
// which coding: the one it would get now, if it has that. Having it in any is as
// good. Tags are compared weakly, as RFC 9110 says: a compressing proxy on the
// way may have weakened them.
func clientHas(tags []string, etag string, now codings.Coding) (coding codings.Coding, ok bool) {
	for _, value := range tags {
		for tag := range strings.SplitSeq(value, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			in, known := tagged(tag, etag)
			if tag == "*" || known && in == now {
				return now, true
			}
			if known && !ok {
				coding, ok = in, true
			}
		}
	}
	return coding, ok
}

// tagged tells in which coding a tag is the content's.
func tagged(tag, etag string) (codings.Coding, bool) {
	end, ok := strings.CutPrefix(tag, strings.TrimSuffix(strings.TrimPrefix(etag, "W/"), `"`))
	if !ok || etag == "" {
		return 0, false
	}
	for coding, tagEnd := range tagEnds {
		if end == tagEnd {
			return codings.Coding(coding), true
		}
	}
	return 0, false
}
